import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { EGpuManager } from '@egpu/core'
import type { EGpuDevice } from '@egpu/core'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cudaDriver, cudaGuest, detectCudaRuntime, resumeParked, runMovable } from '../src/index.ts'
import type { CudaDriver } from '../src/index.ts'
import { FakeMachine } from './machine.ts'

vi.setConfig({ testTimeout: 180_000 })

let machine: FakeMachine
let driver: CudaDriver

beforeEach(() => {
  machine = new FakeMachine()
  driver = cudaDriver({ ...machine.libraries, sysfsRoot: machine.sysfsRoot })
})

afterEach(async () => {
  await driver.close()
  machine[Symbol.dispose]()
})

async function device(index: number): Promise<EGpuDevice> {
  const manager = await EGpuManager.create({ drivers: [driver] })
  return manager.devices[index] as EGpuDevice
}

const signal = (): AbortSignal => new AbortController().signal

it('has a program move to the equal GPU, and lets go of the device itself', async () => {
  const victim = await machine.start({ traits: ['only'] })
  const guest = cudaGuest({ ...machine.options, driver })
  const leaving = await device(0)
  const result = await guest.leave(leaving, { signal: signal() })
  expect(result).toEqual({ left: true, moved: [`victim (pid ${victim.pid}): moved to ${machine.uuid(1)}`] })
  expect(machine.process(victim.pid)).toBe('0 1')
  const attached = machine.ctl('attached', 0)
  await driver.health.sample(machine.uuid(0))
  expect(machine.ctl('attached', 0)).toBe(attached)
})

it('parks a program that would keep the GPU open from another one', async () => {
  const victim = await machine.start()
  const result = await cudaGuest({ ...machine.options, driver }).leave(await device(0), { signal: signal() })
  expect(result).toEqual({ left: true, moved: [`victim (pid ${victim.pid}): parked in host memory`] })
  expect(readdirSync(`/proc/${victim.pid}/fd`).map((fd) => readlinkSync(`/proc/${victim.pid}/fd/${fd}`))).not.toContain(
    join(machine.devRoot, 'nvidia0'),
  )
})

it('vetoes for a program that computes elsewhere and has the GPU open, before anybody is disturbed', async () => {
  const [here, elsewhere] = [await machine.start({ traits: ['only'] }), await machine.start({ gpu: 1 })]
  const result = await cudaGuest({ ...machine.options, driver }).leave(await device(0), { signal: signal() })
  expect(result).toMatchObject({ left: false, reason: expect.stringContaining(`pid ${elsewhere.pid}`) })
  expect(machine.process(here.pid)).toBe('0 0')
  expect(machine.log()).toEqual([])
})

it('parks where no GPU is equal; a call-off brings the program back', async () => {
  machine.ctl('gpu', 1, 'device', 0x2235_10de)
  const victim = await machine.start({ traits: ['only'] })
  const guest = cudaGuest({ ...machine.options, driver })
  const leaving = await device(0)
  expect(await guest.leave(leaving, { signal: signal() })).toMatchObject({
    left: true,
    moved: [`victim (pid ${victim.pid}): parked in host memory`],
  })
  expect(machine.process(victim.pid)).toBe('2 0')
  guest.stay?.(leaving)
  await machine.until('the program to run again', () => machine.process(victim.pid) === '0 0')
})

it('parks with a driver that cannot move yet', async () => {
  machine.ctl('driver', 575, 12_090)
  const victim = await machine.start({ traits: ['only'] })
  const result = await cudaGuest({ ...machine.options, driver }).leave(await device(0), { signal: signal() })
  expect(result).toEqual({ left: true, moved: [`victim (pid ${victim.pid}): parked in host memory`] })
})

it('vetoes for want of host memory before anybody is stopped', async () => {
  const [fits, big] = [await machine.start(), await machine.start({ bytes: 2 ** 50 })]
  machine.ctl('gpu', 0, 'memory', 2 ** 52)
  const result = await cudaGuest({ ...machine.options, driver }).leave(await device(0), { signal: signal() })
  expect(result).toMatchObject({ left: false, reason: expect.stringMatching(`pid ${big.pid}.*bytes of host memory`) })
  expect(machine.process(fits.pid)).toBe('0 0')
  expect(machine.log()).toEqual([])
})

it('brings back the rest of a group when the disconnect is called off and one of it has ended', async () => {
  const { pids } = await machine.startGroup()
  const guest = cudaGuest({ ...machine.options, driver, alwaysPark: true })
  const leaving = await device(0)
  await guest.leave(leaving, { signal: signal() })
  process.kill(pids[0] as number, 'SIGKILL')
  guest.stay?.(leaving)
  await guest.settled()
  expect(machine.process(pids[1] as number)).toBe('0 0')
})

it('vetoes for a program that can do neither, and the others come back', async () => {
  const [good, bad] = [await machine.start(), await machine.start({ traits: ['mig'] })]
  const guest = cudaGuest({ ...machine.options, driver, alwaysPark: true })
  const result = await guest.leave(await device(0), { signal: signal() })
  expect(result).toMatchObject({ left: false, reason: expect.stringContaining(`pid ${bad.pid}`) })
  expect(machine.process(good.pid)).toBe('0 0')
})

it.each([
  ['a whole group', [0, 1], [2]],
  ['the last program', [2], [0, 1]],
  ['one of a group', [0], [1, 2]],
  ['everybody', [0, 1, 2], []],
])('lets the GPU go when %s ends by itself meanwhile', async (_who, ending, parked) => {
  const { pids: pair } = await machine.startGroup()
  const pids = [...pair, (await machine.start()).pid]
  const doomed = ending.map((at) => pids[at] as number)
  const guest = cudaGuest({
    ...machine.options,
    driver,
    alwaysPark: true,
    onProgress: () => {
      for (const pid of doomed.splice(0)) process.kill(pid, 'SIGKILL')
    },
  })
  const result = await guest.leave(await device(0), { signal: signal() })
  expect(result).toMatchObject({ left: true })
  expect(parked.map((at) => machine.process(pids[at] as number))).toEqual(parked.map(() => '2 0'))
  await machine.until('the others to be gone', () =>
    ending.every((at) => ['gone', '2 0'].includes(machine.process(pids[at] as number))),
  )
})

it('resumes everybody who is parked after a re-plug', async () => {
  const victim = await machine.start()
  await cudaGuest({ ...machine.options, driver, alwaysPark: true }).leave(await device(0), { signal: signal() })
  machine.unplug(0)
  expect(await resumeParked(machine.options)).toMatchObject([{ resumed: false }])
  machine.plug(0)
  expect(await resumeParked(machine.options)).toMatchObject([{ resumed: true, processes: [{ pid: victim.pid }] }])
  expect(machine.process(victim.pid)).toBe('0 0')
})

it('parks all of a process group or none', async () => {
  const { pids: pair } = await machine.startGroup()
  await cudaGuest({ ...machine.options, alwaysPark: true }).leave(await device(0), { signal: signal() })
  expect(pair.map((pid) => machine.process(pid))).toEqual(['2 0', '2 0'])
})

it('detects CUDA without touching a GPU', async () => {
  const attached = machine.ctl('attached', 0)
  expect(await detectCudaRuntime(machine.libraries)).toEqual({
    installed: true,
    version: '13.0',
    canPark: true,
    canMove: true,
  })
  expect(machine.ctl('attached', 0)).toBe(attached)
  expect(await detectCudaRuntime({ cudaLibrary: '/nowhere/libcuda.so.1' })).toMatchObject({ installed: false })
})

it('runs a program in a group of its own and hands on how it ended', async () => {
  const node = process.execPath
  expect(await runMovable(node, ['-e', 'process.exit(3)'], { stdio: 'ignore' })).toEqual({ exitCode: 3 })
  const end = new AbortController()
  const run = runMovable(node, ['-e', 'setInterval(() => {}, 1000)'], {
    stdio: 'ignore',
    signal: end.signal,
    onStart: () => end.abort(),
  })
  expect(await run).toEqual({ endedBy: 'SIGTERM' })
})
