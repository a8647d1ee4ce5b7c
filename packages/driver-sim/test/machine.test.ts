import { EGpuErrorCode, EGpuManager, RuntimeKind } from '@egpu/core'
import type { TargetLoss } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { simDriver, VirtualClock } from '../src/index.ts'
import type { SimDriver, SimGpu } from '../src/index.ts'

const plugged = { id: 'box', name: 'Core X', plugged: true, gpus: [{ id: 'gpu', name: 'Test GPU', flops: 1e12 }] }

async function open(
  driver: SimDriver,
): Promise<{ gpu: SimGpu; lost: Promise<TargetLoss>; close: () => Promise<void> }> {
  const target = await driver.runtime.open('sim:gpu')
  return { gpu: target.handle as SimGpu, lost: target.lost, close: () => target.close() }
}

async function settled(work: Promise<unknown>): Promise<'pending' | 'settled'> {
  const turn = new Promise<'pending'>((resolve) => {
    setTimeout(() => resolve('pending'), 5)
  })
  const done = (): 'settled' => 'settled'
  return Promise.race([work.then(done, done), turn])
}

describe('a wedged GPU', () => {
  it('never settles a call, pending or new, until its signal aborts; the driver says so', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { gpu, lost, close } = await open(driver)
    const pending = gpu.run(() => undefined, { flops: 1e12 })
    await clock.advance(1)
    driver.machine.gpu('gpu').wedge()
    expect(await lost).toMatchObject({ reason: 'hung' })
    const end = new AbortController()
    const later = gpu.run(() => undefined, { signal: end.signal })
    await clock.run()
    expect(await settled(pending)).toBe('pending')
    expect(await settled(later)).toBe('pending')
    end.abort('gave up')
    await expect(later).rejects.toBe('gave up')
    expect((await driver.list()).devices[0]?.stage).toBe('wedged')
    await expect(driver.health.sample('gpu')).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost })
    driver.machine.enclosure('box').yank()
    expect(await settled(pending)).toBe('pending')
    await close()
    await expect(gpu.run(() => undefined)).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost })
  })

  it('hangs health readings too and tells nobody when it wedges silently; a reset cures it', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    const { lost } = await open(driver)
    driver.machine.gpu('gpu').wedge({ silent: true })
    const end = new AbortController()
    const sample = driver.health.sample('gpu', { signal: end.signal })
    expect(await settled(sample)).toBe('pending')
    expect(await settled(lost)).toBe('pending')
    expect((await driver.list()).devices[0]?.stage).toBe('ready')
    end.abort('gave up')
    await expect(sample).rejects.toBe('gave up')
    driver.machine.gpu('gpu').reset()
    expect(await lost).toMatchObject({ reason: 'reset' })
    expect((await driver.health.sample('gpu')).memoryTotalBytes).toBeGreaterThan(0)
  })
})

describe('memory', () => {
  it('refuses more than there is with a typed error, which is no loss', async () => {
    await using driver = simDriver({
      enclosures: [{ ...plugged, gpus: [{ id: 'gpu', memoryBytes: 128 * 2 ** 20 }] }],
    })
    const { gpu, lost } = await open(driver)
    const full = expect.objectContaining({ code: EGpuErrorCode.TargetIncompatible }) as Error
    const first = gpu.createBuffer(40 * 2 ** 20)
    expect(() => gpu.createBuffer(40 * 2 ** 20)).toThrow(full)
    driver.machine.gpu('gpu').leakMemory(24 * 2 ** 20)
    expect((await driver.health.sample('gpu')).memoryUsedBytes).toBe(128 * 2 ** 20)
    expect(() => gpu.createBuffer(1)).toThrow(full)
    gpu.destroyBuffer(first)
    expect(gpu.createBuffer(40 * 2 ** 20).byteLength).toBe(40 * 2 ** 20)
    expect(await settled(lost)).toBe('pending')
  })

  it('frees what a closed target held, and a reset gives leaked memory back', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    const idle = (await driver.health.sample('gpu')).memoryUsedBytes
    const { gpu, close } = await open(driver)
    gpu.createBuffer(2 ** 20)
    expect((await driver.health.sample('gpu')).memoryUsedBytes).toBe((idle ?? 0) + 2 ** 20)
    await close()
    driver.machine.gpu('gpu').leakMemory(2 ** 20)
    driver.machine.gpu('gpu').reset()
    expect((await driver.health.sample('gpu')).memoryUsedBytes).toBe(idle)
  })

  it('takes no buffer of another device, and none that was destroyed', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    const [one, other] = [await open(driver), await open(driver)]
    const buffer = one.gpu.createBuffer(8)
    await expect(other.gpu.read(buffer)).rejects.toThrow(TypeError)
    await expect(one.gpu.read(buffer, { byteOffset: 4, byteLength: 8 })).rejects.toThrow(TypeError)
    one.gpu.destroyBuffer(buffer)
    await expect(one.gpu.read(buffer)).rejects.toThrow(TypeError)
  })
})

describe('order of calls', () => {
  it('lets a slow read see what was issued before it and nothing after, without holding up kernels', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { gpu } = await open(driver)
    const buffer = gpu.createBuffer(2 ** 22)
    const add = (): Promise<void> =>
      gpu.run((bytes) => {
        const all = new Uint8Array(bytes(buffer))
        all[0] = (all[0] ?? 0) + 1
      })
    const times: number[] = []
    const reads: Promise<number | undefined>[] = []
    for (let step = 0; step < 4; step += 1) {
      void add().then(() => times.push(clock.now()))
      reads.push(gpu.read(buffer).then((bytes) => bytes[0]))
    }
    expect(await clock.runUntil(Promise.all(reads))).toEqual([1, 2, 3, 4])
    // All four kernels were done long before the first read of 4 MiB was.
    expect(times.at(-1)).toBeLessThan(1)
    expect(clock.now()).toBeGreaterThan(4)
  })

  it('makes a kernel wait for a write issued before it', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { gpu } = await open(driver)
    const [a, b] = [gpu.createBuffer(4), gpu.createBuffer(4)]
    const source = new Uint8Array([9, 9, 9, 9])
    void gpu.write(a, source)
    source.fill(0)
    void gpu.copy(a, b)
    expect([...(await clock.runUntil(gpu.read(b)))]).toEqual([9, 9, 9, 9])
  })
})

describe('health', () => {
  it('shows heat under load, a stopped fan, errors, and what is left of a trained-down link', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { gpu } = await open(driver)
    const cold = await driver.health.sample('gpu')
    const work = gpu.run(() => undefined, { flops: 3e14 })
    await clock.advance(200_000)
    const warm = await driver.health.sample('gpu')
    expect(warm.powerWatts).toBe(250)
    expect(warm.temperatureCelsius).toBeGreaterThan((cold.temperatureCelsius ?? 0) + 30)
    driver.machine.gpu('gpu').slowFan(0)
    await clock.runUntil(work)
    const hot = await driver.health.sample('gpu')
    expect(hot.temperatureCelsius).toBeGreaterThan(hot.temperatureLimitCelsius ?? Number.NaN)
    driver.machine.enclosure('box').degradeLink({ gbpsPerLane: 10 })
    driver.machine.gpu('gpu').countErrors({ correctable: 3 })
    const worse = await driver.health.sample('gpu')
    expect(worse).toMatchObject({ correctableErrors: 3, fatalErrors: 0 })
    expect(worse.linkRatio).toBeLessThan(1)
    expect((await driver.list()).devices[0]?.link?.downgrade).toMatchObject({ at: 'cable' })
    driver.machine.enclosure('box').restoreLink()
    expect((await driver.health.sample('gpu')).linkRatio).toBe(1)
  })

  it('runs kernels slower on a throttling GPU', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { gpu } = await open(driver)
    driver.machine.gpu('gpu').heat(100)
    await clock.runUntil(gpu.run(() => undefined, { flops: 1e10 }))
    expect(clock.now()).toBeCloseTo(20, 0)
  })

  it('never wakes a sleeping GPU; opening it does', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    const card = driver.machine.gpu('gpu')
    card.suspend()
    expect((await driver.list()).devices[0]?.powerState).toBe('suspended')
    const sample = await driver.health.sample('gpu')
    expect(sample.temperatureCelsius).toBeUndefined()
    await driver.runtime.targets()
    expect(card.wakeups).toBe(0)
    await open(driver)
    expect(card.wakeups).toBe(1)
    expect(() => card.suspend()).toThrow(expect.objectContaining({ code: EGpuErrorCode.DeviceBusy }) as Error)
  })
})

describe('enclosures', () => {
  it('shows an unauthorized one with a finding and no GPU, until it is authorized', async () => {
    await using driver = simDriver({ enclosures: [{ ...plugged, authorized: false }] })
    const before = await driver.list()
    expect(before).toMatchObject({ devices: [], enclosures: [{ authorized: false }] })
    expect(before.findings.map((finding) => finding.code)).toEqual(['enclosure-unauthorized'])
    driver.machine.enclosure('box').authorize()
    const after = await driver.list()
    expect(after.devices).toHaveLength(1)
    expect(after.findings).toEqual([])
  })

  it('takes what the enclosure database knows of a model', async () => {
    await using driver = simDriver({ enclosures: [{ model: 'razer-core-x', plugged: true, gpus: [{}] }] })
    const { enclosures, devices } = await driver.list()
    expect(enclosures[0]).toMatchObject({ name: 'Core X', vendorName: 'Razer', powerDeliveryWatts: 100 })
    expect(devices[0]?.thunderboltSpeed).toBe('thunderbolt-3')
    expect(() => driver.machine.addEnclosure({ model: 'no-such-box' })).toThrow(TypeError)
  })

  it('is a GPU and no enclosure over OCuLink, external with doubt', async () => {
    await using driver = simDriver({ enclosures: [{ ...plugged, transport: 'oculink' }] })
    const { enclosures, devices } = await driver.list()
    expect(enclosures).toEqual([])
    expect(devices[0]).toMatchObject({ enclosureId: undefined, verdict: { conclusion: 'external', confidence: 0.6 } })
  })

  it('refuses ports and ids that are taken', () => {
    const { machine } = simDriver({ enclosures: [plugged] })
    expect(() => machine.addEnclosure({ id: 'box' })).toThrow(TypeError)
    expect(() => machine.addGpu({ id: 'gpu' })).toThrow(TypeError)
    expect(() => machine.enclosure('box').plug()).toThrow(TypeError)
    const other = machine.addEnclosure()
    expect(() => other.plug({ port: machine.enclosure('box').port })).toThrow(TypeError)
  })

  it('flaps', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged] })
    const { epoch } = driver.machine.gpu('gpu')
    await clock.runUntil(driver.machine.enclosure('box').flap({ times: 3, everyMs: 100 }))
    expect(driver.machine.gpu('gpu').epoch).toBe(epoch + 3)
    expect(driver.machine.gpu('gpu').stage).toBe('ready')
    expect(clock.now()).toBe(600)
  })
})

describe('safe removal', () => {
  it('takes back what it did when a step fails', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    driver.machine.gpu('gpu').failEject('deauthorize', 'firmware timeout')
    const steps: string[] = []
    const plan = await driver.safeRemoval.plan('gpu')
    const outcome = await driver.safeRemoval.run(plan, { onStep: (step, status) => steps.push(`${step.id} ${status}`) })
    expect(outcome).toMatchObject({
      done: false,
      failedStep: 'deauthorize',
      reason: 'firmware timeout',
      undone: ['remove:gpu', 'unbind:gpu'],
    })
    expect(steps.slice(-3)).toEqual(['deauthorize failed', 'remove:gpu undone', 'unbind:gpu undone'])
    expect(driver.machine.gpu('gpu').stage).toBe('ready')
  })

  it('stops and takes back when its signal aborts half way', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged], timing: { ejectStepMs: 10 } })
    const end = new AbortController()
    const run = driver.safeRemoval.run(await driver.safeRemoval.plan('gpu'), { signal: end.signal })
    const outcome = run.catch((reason: unknown) => reason)
    await clock.advance(15)
    expect(driver.machine.gpu('gpu').stage).toBe('present')
    end.abort('changed my mind')
    expect(await outcome).toBe('changed my mind')
    expect(driver.machine.gpu('gpu').stage).toBe('ready')
  })

  it('says so when the cable is pulled half way', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [plugged], timing: { ejectStepMs: 10 } })
    const run = driver.safeRemoval.run(await driver.safeRemoval.plan('gpu'))
    await clock.advance(15)
    driver.machine.enclosure('box').yank()
    expect(await clock.runUntil(run)).toMatchObject({ done: false, failedStep: 'remove:gpu' })
    expect(driver.machine.gpu('gpu').stage).toBe('absent')
  })

  it('refuses for a GPU that is built in', async () => {
    await using driver = simDriver({ gpus: [{ id: 'gpu' }] })
    const plan = await driver.safeRemoval.plan('gpu')
    expect(plan).toMatchObject({ steps: [], refusals: [expect.stringContaining('built in')] })
    expect(await driver.safeRemoval.run(plan)).toMatchObject({ done: false })
  })

  it('refuses while a target is open', async () => {
    await using driver = simDriver({ enclosures: [plugged] })
    const { close } = await open(driver)
    const plan = await driver.safeRemoval.plan('gpu')
    expect(plan.holders).toHaveLength(1)
    expect(await driver.safeRemoval.run(plan)).toMatchObject({ done: false, failedStep: undefined })
    await close()
    expect(await driver.safeRemoval.run(plan)).toEqual({ done: true })
  })
})

describe('a GPU backed by a real runtime', () => {
  it('destroys the real device when the cable is pulled, and is lost when the real device is', async () => {
    let destroyed = 0
    let lose: (loss: TargetLoss) => void = () => undefined
    const backing = {
      runtime: RuntimeKind.WebGpu,
      open: () =>
        Promise.resolve({
          handle: 'a GPUDevice',
          lost: new Promise<TargetLoss>((resolve) => {
            lose = resolve
          }),
          destroy: () => {
            destroyed += 1
          },
        }),
    }
    await using driver = simDriver({ enclosures: [{ ...plugged, gpus: [{ id: 'gpu', backing }] }] })
    expect(driver.capabilities.runtimes).toEqual(['simulated', 'webgpu'])
    expect((await driver.runtime.targets())[0]?.runtime).toBe('webgpu')
    const first = await driver.runtime.open('sim:gpu')
    expect(first.handle).toBe('a GPUDevice')
    driver.machine.enclosure('box').yank()
    expect(await first.lost).toMatchObject({ reason: 'unplugged' })
    expect(destroyed).toBe(1)
    driver.machine.enclosure('box').plug()
    const second = await driver.runtime.open('sim:gpu')
    lose({ reason: 'reset', message: 'the driver restarted', atMs: 0 })
    expect(await second.lost).toMatchObject({ reason: 'reset' })
    await second.close()
    expect(destroyed).toBe(2)
  })

  it('refuses a runtime it was not told of, since capabilities are constant', () => {
    const backing = { runtime: RuntimeKind.Cuda, open: () => Promise.reject(new Error('no')) }
    expect(() => simDriver().machine.addGpu({ backing })).toThrow(TypeError)
    expect(simDriver({ runtimes: ['cuda'] }).machine.addGpu({ backing }).stage).toBe('ready')
  })
})

describe('ten thousand devices', () => {
  it('are listed, and seen by a manager', async () => {
    const gpus = Array.from({ length: 10_000 }, (_, index) => ({ name: `GPU ${index}` }))
    await using driver = simDriver({ gpus })
    expect((await driver.list()).devices).toHaveLength(10_000)
    await using manager = await EGpuManager.create({ drivers: [driver] })
    expect(manager.devices).toHaveLength(10_000)
  })
})
