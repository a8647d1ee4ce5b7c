import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import type { EGpuDevice } from '@egpu/core'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { cudaDriver, cudaGuest, listCudaProcesses, recoverCudaProcesses, resumeParked } from '../src/index.ts'
import type { CudaOptions, CudaProcess } from '../src/index.ts'
import { FakeMachine } from './machine.ts'
import type { Victim } from './machine.ts'

// Whatever goes wrong, and whenever: nobody is left stopped, and nobody who is parked is lost.
vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(() => machine[Symbol.dispose]())

async function find(pid: number, options: CudaOptions = {}): Promise<CudaProcess> {
  const processes = await listCudaProcesses({ ...machine.options, ...options })
  return processes.find((one) => one.pid === pid) as CudaProcess
}

/** Has a call begin, and gives it once the fake driver has stopped it there. */
async function stoppedAt<T>(
  step: string,
  when: 'before' | 'after',
  skip: number,
  work: () => Promise<T>,
): Promise<Promise<T>[]> {
  machine.ctl('pause', step, when, skip)
  const call = work()
  call.catch(() => undefined)
  await machine.until(`the call to be ${when} ${step}`, () => machine.ctl('paused') === '1')
  return [call]
}

const notes = (): readonly string[] => readdirSync(machine.stateDirectory)
const noteOf = ({ pid }: Victim): string =>
  join(machine.stateDirectory, notes().find((name) => name.startsWith(`${pid}-`)) as string)

describe('when the process that makes the calls is killed', () => {
  it.each([
    ['lock', 'after'],
    ['checkpoint', 'before'],
    ['restore', 'before'],
    ['restore', 'after'],
  ] as const)('%s, %s: another one has the program run', async (step, when) => {
    const victim = await machine.start({ bytes: 2 ** 20 })
    const target = await find(victim.pid)
    const [call] = await stoppedAt(step, when, 0, () => target.moveTo(machine.uuid(1)))
    for (const pid of machine.hosts()) process.kill(pid, 'SIGKILL')
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.NativeUnavailable })
    expect(machine.process(victim.pid)).toMatch(/^0 /)
    expect(notes()).toEqual([])
  })

  it('after the last step has begun, the move has succeeded', async () => {
    const victim = await machine.start({ bytes: 2 ** 20 })
    const target = await find(victim.pid)
    const [call] = await stoppedAt('unlock', 'after', 0, () => target.moveTo(machine.uuid(1)))
    for (const pid of machine.hosts()) process.kill(pid, 'SIGKILL')
    machine.ctl('go-on')
    await expect(call).resolves.toMatchObject({ pids: [victim.pid] })
    expect(machine.process(victim.pid)).toBe('0 1')
    expect(notes()).toEqual([])
  })
})

describe('of a group', () => {
  it('those who remain are not left locked when one ends after all were restored', async () => {
    const { pids } = await machine.startGroup()
    await (await find(pids[0] as number)).park()
    const target = await find(pids[0] as number)
    const [call] = await stoppedAt('restore', 'after', 1, () => target.resume())
    process.kill(pids[0] as number, 'SIGKILL')
    machine.ctl('go-on')
    await call
    expect(machine.process(pids[1] as number)).toBe('0 0')
    expect(notes()).toEqual([])
  })

  it('those who remain stay parked when one ends while they are resumed, and can be resumed', async () => {
    const { pids } = await machine.startGroup()
    await (await find(pids[0] as number)).park()
    const target = await find(pids[0] as number)
    const [call] = await stoppedAt('restore', 'after', 0, () => target.resume())
    process.kill(pids[1] as number, 'SIGKILL')
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.ProcessNotFound })
    expect(machine.process(pids[0] as number)).toBe('2 0')
    expect(await resumeParked(machine.options)).toMatchObject([{ resumed: true }])
    expect(machine.process(pids[0] as number)).toBe('0 0')
  })

  it('one that cannot go back runs where it is when the others could not follow', async () => {
    const { pids } = await machine.startGroup()
    const target = await find(pids[0] as number)
    const [call] = await stoppedAt('restore', 'after', 0, () => target.moveTo(machine.uuid(1)))
    machine.ctl('gpu', 1, 'memory', 2 ** 19)
    machine.ctl('fail', 'checkpoint', 999, 1)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.TargetIncompatible })
    expect(pids.map((pid) => machine.process(pid))).toEqual(['0 1', '0 0'])
    expect(notes()).toEqual([])
  })

  it('those who are parked can be resumed though another one joined them, and that one can be parked', async () => {
    const { pids, join: another } = await machine.startGroup()
    await (await find(pids[0] as number)).park()
    const third = await another()
    await (await find(pids[0] as number)).resume()
    expect([...pids, third].map((pid) => machine.process(pid))).toEqual(['0 0', '0 0', '0 0'])
    await (await find(third)).park()
    expect([...pids, third].map((pid) => machine.process(pid))).toEqual(['2 0', '2 0', '2 0'])
  })

  it('nobody is parked when another one joins while they are being stopped', async () => {
    const { pids, join: another } = await machine.startGroup()
    const target = await find(pids[0] as number)
    const [call] = await stoppedAt('lock', 'after', 1, () => target.park())
    const third = await another()
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.DeviceBusy })
    expect([...pids, third].map((pid) => machine.process(pid))).toEqual(['0 0', '0 0', '0 0'])
    expect(notes()).toEqual([])
  })
})

describe('what has changed since the look', () => {
  it('more memory than host memory can take: it runs on', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    const [call] = await stoppedAt('lock', 'after', 0, () => target.park())
    machine.ctl('grow', victim.pid, 2 ** 50)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.TargetIncompatible })
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it('more memory than was seen: so much is noted, and has to be free before it goes back', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    const [call] = await stoppedAt('lock', 'after', 0, () => target.park())
    machine.ctl('grow', victim.pid, 2 ** 31)
    machine.ctl('go-on')
    await expect(call).resolves.toMatchObject({ bytes: 2 ** 31 })
    machine.ctl('gpu', 0, 'memory', 3 * 2 ** 29)
    await expect((await find(victim.pid)).resume()).rejects.toMatchObject({ code: EGpuErrorCode.TargetIncompatible })
    expect(machine.process(victim.pid)).toBe('2 0')
    expect(machine.log().filter((line) => line.startsWith('restore'))).toEqual([])
  })

  it('somebody else has locked it: it is theirs, and stays as it is', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    const [call] = await stoppedAt('lock', 'before', 0, () => target.park())
    machine.ctl('state', victim.pid, 1)
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.DeviceBusy })
    expect(machine.log()).toEqual([`lock ${victim.pid} 401`])
    expect(notes()).toEqual([])
  })
})

describe('the notes', () => {
  it('that cannot be made keep everybody running', async () => {
    const victim = await machine.start()
    writeFileSync(join(machine.home, 'file'), '')
    const target = await find(victim.pid, { stateDirectory: join(machine.home, 'file', 'state') })
    await expect(target.park()).rejects.toMatchObject({ code: EGpuErrorCode.PermissionDenied })
    expect(machine.log()).toEqual([])
  })

  it('that are taken away meanwhile: nobody is parked whom nobody would find', async () => {
    const victim = await machine.start()
    const target = await find(victim.pid)
    const [call] = await stoppedAt('checkpoint', 'after', 0, () => target.park())
    rmSync(machine.stateDirectory, { recursive: true })
    machine.ctl('go-on')
    await expect(call).rejects.toMatchObject({ code: EGpuErrorCode.PermissionDenied })
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it.each([
    ['is empty', () => ''],
    ['is cut off', (text: string) => text.slice(0, 40)],
    ['is no object', () => 'null'],
    ['lacks what a note has', () => '{"version":1,"goal":"running"}'],
    ['is about another process', (text: string) => text.replace(/"pid":\d+/, '"pid":1')],
  ])('one that %s still has its process set to work', async (_what, damage) => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    const path = noteOf(victim)
    writeFileSync(path, damage(readFileSync(path, 'utf8')))
    expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ pid: victim.pid, outcome: 'running' }])
    expect(machine.process(victim.pid)).toBe('0 0')
    expect(notes()).toEqual([])
  })

  it('of another boot are about nobody', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    const path = noteOf(victim)
    writeFileSync(path, readFileSync(path, 'utf8').replace(/"bootId":"[^"]*"/, '"bootId":"another"'))
    expect(await recoverCudaProcesses(machine.options)).toEqual([])
    expect(await listCudaProcesses(machine.options)).toEqual([])
  })

  it('of who could not be set to work leave it to the next try, also by the same program', async () => {
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    const path = noteOf(victim)
    const owner = '"goal":"running","owner":{"pid":1,"startTime":"0"}'
    writeFileSync(path, readFileSync(path, 'utf8').replace('"goal":"parked"', owner))
    machine.unplug(0)
    expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'held' }])
    machine.plug(0)
    expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'running' }])
    expect(machine.process(victim.pid)).toBe('0 0')
  })
})

describe('recovery', () => {
  it('has the others run when one takes the helper process along', async () => {
    const victims = [await machine.start(), await machine.start()]
    for (const { pid } of victims) await (await find(pid)).park()
    for (const victim of victims) writeFileSync(noteOf(victim), '')
    const [call] = await stoppedAt('restore', 'before', 0, () => recoverCudaProcesses(machine.options))
    for (const pid of machine.hosts()) process.kill(pid, 'SIGKILL')
    machine.ctl('go-on')
    expect((await call)?.map(({ outcome }) => outcome).sort()).toEqual(['held', 'running'])
    expect(await recoverCudaProcesses(machine.options)).toMatchObject([{ outcome: 'running' }])
    expect(victims.map(({ pid }) => machine.process(pid))).toEqual(['0 0', '0 0'])
  })
})

describe('who is parked comes back', () => {
  it('while another GPU of the machine sleeps', async () => {
    const victim = await machine.start({ traits: ['only'] })
    await (await find(victim.pid)).park()
    machine.setPower(1, 'suspended')
    expect(await resumeParked(machine.options)).toMatchObject([{ resumed: true, processes: [{ pid: victim.pid }] }])
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it('whoever shares the GPU with it by now', async () => {
    machine.ctl('foreign-kernel', 1)
    const victim = await machine.start()
    await (await find(victim.pid)).park()
    await machine.start()
    await (await find(victim.pid)).resume()
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it('though another GPU has died', async () => {
    const victim = await machine.start({ gpu: 1 })
    await (await find(victim.pid)).park()
    machine.ctl('gpu', 0, 'lost', 1)
    expect(await resumeParked(machine.options)).toMatchObject([{ resumed: true }])
    expect(await find(victim.pid)).toMatchObject({ memory: [{ uuid: machine.uuid(1) }], state: 'running' })
  })

  it.each(['is aborted', 'fails'])('when letting go of the GPU %s', async (what) => {
    const victim = await machine.start()
    await using driver = cudaDriver({ ...machine.libraries, sysfsRoot: machine.sysfsRoot })
    const end = new AbortController()
    const release = (): Promise<() => void> => {
      expect(machine.process(victim.pid)).toBe('2 0')
      if (what === 'fails') return Promise.reject(new Error('no'))
      end.abort()
      return Promise.resolve(() => undefined)
    }
    const guest = cudaGuest({ ...machine.options, driver: { ...driver, release } })
    const device = { id: 'egpu', identity: { uuid: machine.uuid(0) } } as EGpuDevice
    await expect(guest.leave(device, { signal: end.signal })).rejects.toBeInstanceOf(Error)
    expect(machine.process(victim.pid)).toBe('0 0')
  })

  it.each([
    ['lock', 'before', 0],
    ['checkpoint', 'after', 0],
    ['lock', 'after', 1],
    ['checkpoint', 'after', 1],
  ] as const)('when a leave is called off: %s, %s, after %i others', async (step, when, skip) => {
    const victims = [await machine.start(), await machine.start()]
    const end = new AbortController()
    const guest = cudaGuest({ ...machine.options, alwaysPark: true })
    const device = { id: 'egpu', identity: { uuid: machine.uuid(0) } } as EGpuDevice
    const [call] = await stoppedAt(step, when, skip, () => guest.leave(device, { signal: end.signal }))
    const reason = new Error('called off')
    end.abort(reason)
    machine.ctl('go-on')
    await expect(call).rejects.toBe(reason)
    expect(victims.map(({ pid }) => machine.process(pid))).toEqual(['0 0', '0 0'])
    expect(notes()).toEqual([])
  })
})
