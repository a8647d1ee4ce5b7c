import { EGpuManager } from '@egpu/core'
import { simDriver, type SimDriver } from '@egpu/driver-sim'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { FakeMachine } from '../../driver-cuda/test/machine.ts'
import { CudaPrograms } from '../src/dashboard/cuda-programs.ts'
import { ejectLines, ejectPlan } from '../src/dashboard/eject.ts'
import type { DashboardMachine } from '../src/dashboard/machine.ts'
import type { EjectLine } from '../src/dashboard/protocol.ts'

vi.setConfig({ testTimeout: 120_000 })

let fake: FakeMachine
let driver: SimDriver
let manager: EGpuManager
let cuda: CudaPrograms

/** A box with the first of the fake GPUs, as a driver sees it that knows no UUIDs. */
beforeEach(async () => {
  fake = new FakeMachine()
  const gpu = { name: 'RTX 4090', vendorId: 0x10de, deviceId: 0x2684, uuid: fake.uuid(0), kernelDriver: 'nvidia' }
  driver = simDriver({ enclosures: [{ model: 'razer-core-x', plugged: true, gpus: [gpu] }] })
  manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring({ healthIntervalMs: 0 })
  cuda = new CudaPrograms(manager, fake.options)
  manager.addGuest(cuda)
})

afterEach(async () => {
  await cuda[Symbol.asyncDispose]()
  await manager.close()
  fake[Symbol.dispose]()
})

const machine = (): DashboardMachine => ({
  name: 'a machine with programs',
  manager,
  cuda,
  workloads: () => [],
  [Symbol.asyncDispose]: async () => {},
})

const signal = new AbortController().signal
const gpu = (): string => manager.externalDevices[0]?.id ?? ''

it('tells who computes, on what, and why somebody cannot be moved', async () => {
  const [good, bad] = [await fake.start(), await fake.start({ gpu: 1, traits: ['managed'] })]
  await expect.poll(() => cuda.now().programs.length, { timeout: 60_000 }).toBe(2)
  const { programs, problem } = cuda.now()
  expect(problem).toBeUndefined()
  expect(programs.find(({ pid }) => pid === good.pid)).toMatchObject({
    name: 'victim',
    command: expect.stringContaining('victim'),
    memory: [{ gpu: 'RTX 4090', bytes: 2 ** 30 }],
    obstacles: [],
  })
  expect(programs.find(({ pid }) => pid === bad.pid)?.obstacles).toEqual([expect.stringContaining('managed memory')])
})

it('says what an eject means for them, does it, and does not count what it started itself', async () => {
  const victim = await fake.start()
  const plan = await ejectPlan(machine(), gpu(), signal)
  expect(plan.programs).toEqual([{ text: expect.stringContaining(`pid ${victim.pid}`), stays: false }])
  expect(plan.guests).toEqual([])
  expect(fake.process(victim.pid)).toBe('0 0')
  const lines: EjectLine[] = []
  await ejectLines(manager, gpu(), signal, async (line) => void lines.push(line))
  expect(lines.at(-1)).toMatchObject({ safeToUnplug: true, details: [expect.stringContaining('parked')] })
  expect(fake.process(victim.pid)).toBe('2 0')
})

it('refuses for who cannot leave, and looks again afterwards', async () => {
  const stuck = await fake.start({ traits: ['managed'] })
  expect((await ejectPlan(machine(), gpu(), signal)).programs).toMatchObject([{ stays: true }])
  const lines: EjectLine[] = []
  await ejectLines(manager, gpu(), signal, async (line) => void lines.push(line))
  expect(lines.at(-1)).toMatchObject({ safeToUnplug: false, details: [expect.stringContaining(`pid ${stuck.pid}`)] })
  await expect.poll(() => cuda.now().programs.length, { timeout: 60_000 }).toBe(1)
})

it('asks nobody where no NVIDIA GPU is awake', async () => {
  await using idle = await EGpuManager.create({ drivers: [simDriver({ gpus: [{ name: 'GPU' }] })] })
  await using programs = new CudaPrograms(idle, { ...fake.options, nvmlLibrary: '/nowhere/libnvidia-ml.so.1' })
  for (let look = 0; look < 3; look += 1) {
    expect(programs.now()).toEqual({ programs: [], problem: undefined })
    await new Promise(setImmediate)
  }
})

it('says why they are not known when NVIDIA cannot be asked', async () => {
  await using programs = new CudaPrograms(manager, { ...fake.options, nvmlLibrary: '/nowhere/libnvidia-ml.so.1' })
  await expect.poll(() => programs.now().problem, { timeout: 60_000 }).toMatch(/NVIDIA's libraries cannot be used/)
})

it('looks again once the ejected GPU is back, also when nobody watched meanwhile', async () => {
  const back = manager.next('returned')
  await ejectLines(manager, gpu(), signal, async () => {})
  const [box] = driver.machine.enclosures
  box?.yank()
  box?.plug()
  await back
  const late = await fake.start()
  await expect.poll(() => cuda.now().programs.map(({ pid }) => pid), { timeout: 60_000 }).toEqual([late.pid])
})
