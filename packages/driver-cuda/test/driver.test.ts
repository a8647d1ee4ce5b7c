import { getEventListeners } from 'node:events'
import { EGpuErrorCode, EGpuManager, systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { DriverEvent } from '@egpu/core/driver'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { cudaDriver } from '../src/index.ts'
import type { CudaDriver, CudaDriverOptions } from '../src/index.ts'
import { FakeMachine } from './machine.ts'

// Every driver starts a process that loads native libraries.
vi.setConfig({ testTimeout: 60_000 })

let machine: FakeMachine
const open: CudaDriver[] = []

beforeEach(() => {
  machine = new FakeMachine()
})

afterEach(async () => {
  await Promise.all(open.splice(0).map((driver) => driver.close()))
  machine[Symbol.dispose]()
})

function make(options: CudaDriverOptions = {}): CudaDriver {
  const driver = cudaDriver({ ...machine.libraries, sysfsRoot: machine.sysfsRoot, rescanMs: 20, ...options })
  open.push(driver)
  return driver
}

it('names each GPU by UUID, PCI address, ids and memory', async () => {
  machine.ctl('gpu', 1, 'serial', '1324920001')
  const { devices } = await make().list()
  expect(devices).toHaveLength(2)
  expect(devices[1]).toMatchObject({
    key: machine.uuid(1),
    identity: { uuid: machine.uuid(1), pciAddress: '0000:07:00.0', serial: '1324920001', vendorId: 0x10de },
    gpu: { name: 'NVIDIA GeForce RTX 4090', vendor: 'nvidia', deviceId: 0x2684, subsystemVendorId: 0x1458 },
    stage: 'ready',
    kernelDriver: 'nvidia',
  })
  expect(devices[1]?.gpu.memoryBytes).toBe(24 * 2 ** 30)
})

it('reads temperature, power, memory and replays', async () => {
  machine.ctl('gpu', 0, 'replays', 7)
  const sample = await make().health.sample(machine.uuid(0))
  expect(sample).toMatchObject({ temperatureCelsius: 41, temperatureLimitCelsius: 92, powerWatts: 31.5 })
  expect(sample).toMatchObject({ correctableErrors: 7, memoryTotalBytes: 24 * 2 ** 30, memoryUsedBytes: 4 * 2 ** 20 })
})

it('takes a slow link of an idle GPU for saved power and one of a busy GPU for a fault', async () => {
  expect((await make().health.sample(machine.uuid(0))).linkRatio).toBeUndefined()
  machine.ctl('gpu', 0, 'utilization', 90)
  machine.ctl('gpu', 0, 'gen', 3)
  machine.ctl('gpu', 0, 'width', 2)
  expect((await make().health.sample(machine.uuid(0))).linkRatio).toBe(0.25)
})

it('reads the link, which is slow to ask, every half minute, and the rest each time', async () => {
  let nowMs = 0
  const driver = make({ clock: { now: () => nowMs, sleep: systemClock.sleep.bind(systemClock) } })
  const replays: (number | undefined)[] = []
  for (const atMs of [0, 1_000, 29_999, 30_000]) {
    nowMs = atMs
    machine.ctl('gpu', 0, 'replays', atMs)
    machine.ctl('gpu', 0, 'temperature', 40 + replays.length)
    const sample = await driver.health.sample(machine.uuid(0))
    expect(sample).toMatchObject({ temperatureCelsius: 40 + replays.length, temperatureLimitCelsius: 92 })
    replays.push(sample.correctableErrors)
  }
  expect(replays).toEqual([0, undefined, undefined, 30_000])
})

it('details: clocks, throughput, recovery action; what the board lacks is undefined', async () => {
  machine.ctl('gpu', 0, 'recovery', 1)
  const details = await make().details(machine.uuid(0))
  expect(details).toMatchObject({ graphicsMHz: 1000, smMHz: 1001, memoryMHz: 1002, recoveryAction: 'reset-gpu' })
  expect(details.pcieGBps).toEqual({ toDevice: 0.002, fromDevice: 0.001 })
  expect(details.eccUncorrected).toBeUndefined()
  expect(details.retiredPages).toBeUndefined()
})

it('never takes a handle of a GPU that sleeps, and lists it as it was', async () => {
  const driver = make()
  await driver.list()
  machine.setPower(0, 'suspended')
  const before = machine.ctl('attached', 0)
  const { devices } = await driver.list()
  expect(devices.map(({ key, powerState }) => [key, powerState])).toEqual([
    [machine.uuid(0), 'suspended'],
    [machine.uuid(1), undefined],
  ])
  const { atMs, ...rest } = await driver.health.sample(machine.uuid(0))
  expect(Number.isFinite(atMs)).toBe(true)
  expect(rest).toEqual({})
  await expect(driver.details(machine.uuid(0))).rejects.toMatchObject({ code: EGpuErrorCode.NotSupported })
  expect(machine.ctl('attached', 0)).toBe(before)
})

it('does not wake a GPU it has never seen', async () => {
  machine.setPower(0, 'suspended')
  machine.setPower(1, 'suspended')
  const driver = make()
  expect(await driver.probe()).toEqual({ usable: true })
  expect((await driver.list()).devices).toEqual([])
  expect(machine.ctl('attached', 0)).toBe('0')
  expect((await make({ wakeSuspended: true }).list()).devices).toHaveLength(2)
})

it('leaves a call that hangs behind, and works again with a fresh process', async () => {
  const driver = make()
  await driver.list()
  machine.ctl('hang-nvml', 1)
  await expect(driver.health.sample(machine.uuid(0))).rejects.toMatchObject({ code: EGpuErrorCode.Timeout })
  machine.ctl('hang-nvml', 0)
  expect((await driver.health.sample(machine.uuid(0))).temperatureCelsius).toBe(41)
})

it('ends the wait for a hanging call when the signal aborts', async () => {
  const driver = make()
  await driver.list()
  machine.ctl('hang-nvml', 1)
  const reason = new Error('enough')
  const end = new AbortController()
  const call = driver.health.sample(machine.uuid(0), { signal: end.signal })
  setTimeout(() => end.abort(reason), 50)
  await expect(call).rejects.toBe(reason)
})

async function nextOf(watch: AsyncIterator<DriverEvent>, type: DriverEvent['type']): Promise<DriverEvent> {
  for (;;) {
    const { value, done } = await watch.next()
    if (done === true) throw new Error(`the watch ended before ${type}`)
    if (value.type === type) return value
  }
}

it('tells of Xids: some are findings, some are the death of the GPU', async () => {
  const end = new AbortController()
  const watch = make().watch({ signal: end.signal })[Symbol.asyncIterator]()
  await nextOf(watch, 'resync')
  machine.ctl('event', 1, 0x8, 32)
  expect(await nextOf(watch, 'findings-observed')).toMatchObject({
    findings: [{ code: 'nvidia-xid', severity: 'error', deviceId: machine.uuid(1) }],
  })
  machine.ctl('event', 1, 0x8, 119)
  expect(await nextOf(watch, 'device-wedged')).toMatchObject({ key: machine.uuid(1) })
  machine.ctl('event', 0, 0x8, 79)
  expect(await nextOf(watch, 'device-lost')).toMatchObject({ key: machine.uuid(0) })
  end.abort()
})

it('holds no device once released, until it may again', async () => {
  const driver = make()
  const { devices } = await driver.list()
  const takeBack = await driver.release(machine.uuid(0))
  const before = machine.ctl('attached', 0)
  expect((await driver.list()).devices).toEqual(devices)
  expect(await driver.health.sample(machine.uuid(1))).not.toHaveProperty('temperatureCelsius')
  expect(machine.ctl('attached', 0)).toBe(before)
  takeBack()
  expect((await driver.health.sample(machine.uuid(1))).temperatureCelsius).toBe(42)
})

it('goes back to work by itself once the released GPU is off the bus', async () => {
  const driver = make()
  await driver.list()
  await driver.release(machine.uuid(0))
  machine.unplug(0)
  expect((await driver.list()).devices.map(({ key }) => key)).toEqual([machine.uuid(1)])
  expect((await driver.health.sample(machine.uuid(1))).temperatureCelsius).toBe(42)
})

it('says why it cannot work: no library', async () => {
  const probe = await cudaDriver({ nvmlLibrary: '/nowhere/libnvidia-ml.so.1' }).probe()
  expect(probe).toMatchObject({ usable: false, reason: expect.stringContaining("install NVIDIA's driver") })
  expect(probe).toMatchObject({ reason: expect.stringContaining('/nowhere/libnvidia-ml.so.1') })
})

it('is one source among others of a manager', async () => {
  await using manager = await EGpuManager.create({ drivers: [make()] })
  expect(manager.devices.map(({ identity }) => identity.uuid)).toEqual([machine.uuid(0), machine.uuid(1)])
})

it('asks for nothing more when a reader has left before there was anything to read', async () => {
  let sleeps = 0
  const clock: Clock = {
    now: () => systemClock.now(),
    sleep: (...args) => {
      sleeps += 1
      return systemClock.sleep(...args)
    },
  }
  const driver = make({ clock })
  const watch = driver.watch({ signal: new AbortController().signal })[Symbol.asyncIterator]()
  expect(await watch.return?.()).toMatchObject({ done: true })
  await driver.list()
  await systemClock.sleep(100)
  expect(sleeps).toBe(0)
})

it('keeps hearing of Xids when another reader leaves while the first begins', async () => {
  const driver = make()
  const { signal } = new AbortController()
  const [one, other] = [driver.watch({ signal }), driver.watch({ signal })].map((watch) =>
    watch[Symbol.asyncIterator](),
  ) as [AsyncIterator<DriverEvent>, AsyncIterator<DriverEvent>]
  await other.return?.()
  await nextOf(one, 'resync')
  // Longer than a process that nobody needs is kept.
  await systemClock.sleep(3_500)
  machine.ctl('event', 0, 0x8, 79)
  expect(await nextOf(one, 'device-lost')).toMatchObject({ key: machine.uuid(0) })
  await one.return?.()
  await machine.until('the process that nobody needs any more to end', () => machine.hosts().length === 0)
})

it('leaves no process behind when it is closed in the middle of many calls, and answers no more', async () => {
  const driver = make()
  const calls = Array.from({ length: 30 }, (_, index) =>
    index % 2 === 0 ? driver.list() : driver.health.sample(machine.uuid(0)),
  ).map((call) =>
    call.then(
      () => 'answered',
      (error: unknown) => (error as { readonly code?: unknown }).code,
    ),
  )
  await driver.close()
  expect(machine.hosts()).toEqual([])
  expect(new Set(await Promise.all(calls))).toEqual(new Set([EGpuErrorCode.Closed]))
  expect(await driver.probe()).toMatchObject({ usable: false, reason: expect.stringContaining('closed') })
  await expect(driver.list()).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
  expect(machine.hosts()).toEqual([])
})

it('has one listener on a signal that many calls share', async () => {
  const driver = make()
  const { signal } = new AbortController()
  const calls = Array.from({ length: 40 }, () => driver.health.sample(machine.uuid(0), { signal }))
  await Promise.race(calls)
  expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(1)
  await Promise.all(calls)
})
