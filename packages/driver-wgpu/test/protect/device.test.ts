import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { globals } from 'webgpu'
import { afterEach, describe, expect, test } from 'vitest'
import { isProtected, protectDevice, protectionOf, wgpuDriver } from '../../src/index.ts'
import type { ProtectionEvent, ProtectOptions } from '../../src/index.ts'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { changedDawn, named } from '../support/dawn.ts'
import { staying } from '../support/keep-alive.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { expectedState, readBack, startSteps, wordCount } from '../support/workload.ts'
import { TextureUsage, Usage } from './workloads/workload.ts'

const control = useRealVulkan()
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const classes = globals as Record<string, new () => object>
const never = { intervalMs: Number.POSITIVE_INFINITY }

/** For what a busy machine gets to later. */
const patient = { timeout: 10_000 }

let opened: GPUDevice[] = []
let events: ProtectionEvent[] = []
async function open(options: ProtectOptions = {}): Promise<GPUDevice> {
  const device = await protectDevice({
    checkpoint: never,
    heartbeat: { intervalMs: 10 },
    ...options,
    onEvent: (event) => events.push(event),
  })
  opened.push(device)
  return device
}
const types = (): string[] => events.map(({ type }) => type)

afterEach(async () => {
  control.heal()
  for (const device of opened) {
    device.destroy()
    await staying(device.lost)
  }
  opened = []
  events = []
  await expect.poll(heldDeviceCount).toBe(0)
})

describe('to its user', () => {
  test('it and all it makes are what they pretend to be', async () => {
    const device = await open({ descriptor: { label: 'mine' } })
    const pipeline = device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: '@compute @workgroup_size(1) fn main() {}' }) },
    })
    const encoder = device.createCommandEncoder({ label: 'enc' })
    const texture = device.createTexture({ size: [4, 4], format: 'rgba8unorm', usage: TextureUsage.RENDER_ATTACHMENT })
    const pass = encoder.beginComputePass()
    const made = {
      GPUDevice: device,
      GPUQueue: device.queue,
      GPUBuffer: device.createBuffer({ size: 4, usage: Usage.COPY_DST }),
      GPUTexture: texture,
      GPUTextureView: texture.createView(),
      GPUSampler: device.createSampler(),
      GPUComputePipeline: pipeline,
      GPUBindGroupLayout: device.createBindGroupLayout({ entries: [] }),
      GPUQuerySet: device.createQuerySet({ type: 'occlusion', count: 1 }),
      GPUCommandEncoder: encoder,
      GPUComputePassEncoder: pass,
    }
    pass.end()
    for (const [name, object] of Object.entries({ ...made, GPUCommandBuffer: encoder.finish() })) {
      expect(object).toBeInstanceOf(classes[name])
      expect(object.constructor.name).toBe(name)
      expect(Object.prototype.toString.call(object)).toBe(`[object ${name}]`)
      expect(Object.keys(object)).toEqual([])
    }
    expect([device.label, encoder.label]).toEqual(['mine', 'enc'])
    expect(device.features.has('core-features-and-limits')).toBe(true)
    expect(device.limits.maxBufferSize).toBe(2 ** 28)
    expect(isProtected(device)).toBe(true)
    expect(isProtected({})).toBe(false)
    expect(() => protectionOf({} as GPUDevice)).toThrow(TypeError)
  })

  test('usages, sizes and labels are those it gave, also after a loss', async () => {
    const device = await open()
    const buffer = device.createBuffer({ size: 8, usage: Usage.MAP_READ | Usage.COPY_DST, label: 'one' })
    const texture = device.createTexture({ size: [4, 2], format: 'rgba8unorm', usage: TextureUsage.TEXTURE_BINDING })
    buffer.label = 'two'
    const seen = (): unknown[] => [
      buffer.size,
      buffer.usage,
      buffer.label,
      buffer.mapState,
      texture.width,
      texture.usage,
    ]
    const before = seen()
    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    expect(protectionOf(device).epoch).toBe(2)
    expect(seen()).toEqual(before)
    expect(before).toEqual([8, Usage.MAP_READ | Usage.COPY_DST, 'two', 'unmapped', 4, TextureUsage.TEXTURE_BINDING])
  })

  test('lost stays pending across losses, and resolves on destroy', async () => {
    const device = await open()
    let isLost = false
    void device.lost.then(() => (isLost = true))
    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    expect(isLost).toBe(false)
    device.destroy()
    const info = await staying(device.lost)
    expect(info).toBeInstanceOf(classes['GPUDeviceLostInfo'])
    expect(info.reason).toBe('destroyed')
    // As on a bare device, nothing is left to wait for.
    await device.queue.onSubmittedWorkDone()
  })

  test('errors that no scope catches come as events, with the device as target', async () => {
    const device = await open()
    const heard: unknown[] = []
    device.onuncapturederror = (event) => {
      event.preventDefault()
      heard.push(event.target, event.error)
    }
    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    device.createBuffer({ size: 4, usage: 0 })
    await expect.poll(() => heard.length).toBe(2)
    expect(heard[0]).toBe(device)
    expect(heard[1]).toBeInstanceOf(classes['GPUValidationError'])
  })
})

describe('through a loss', () => {
  test('an idle device comes back by itself', async () => {
    const device = await open()
    const steps = startSteps(device)
    for (let step = 0; step < 5; step += 1) steps.step()
    await device.queue.onSubmittedWorkDone()
    control.loseAt('submit', 1)
    await expect.poll(() => protectionOf(device).stats.recoveries).toBe(1)
    expect(await readBack(device, steps.state)).toEqual(expectedState(5))
  })

  test('what was mapped stays mapped, readable and writable', async () => {
    const device = await open()
    const source = device.createBuffer({ size: 16, usage: Usage.COPY_SRC | Usage.COPY_DST })
    device.queue.writeBuffer(source, 0, new Uint32Array([1, 2, 3, 4]))
    const reading = device.createBuffer({ size: 16, usage: Usage.MAP_READ | Usage.COPY_DST })
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(source, 0, reading, 0, 16)
    device.queue.submit([encoder.finish()])
    await reading.mapAsync(1)
    const read = new Uint32Array(reading.getMappedRange())
    const writing = device.createBuffer({ size: 16, usage: Usage.COPY_SRC, mappedAtCreation: true })
    const written = new Uint32Array(writing.getMappedRange())
    written.set([5, 6])

    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    expect([...read]).toEqual([1, 2, 3, 4])
    written.set([7, 8], 2)
    writing.unmap()
    expect(written.length).toBe(0)
    expect([...(await readBack(device, writing))]).toEqual([5, 6, 7, 8])
  })

  test('work that is given while there is no device is done by the next one', async () => {
    const device = await open({ backoffMs: [20] })
    const steps = startSteps(device)
    steps.step()
    control.lose({ hide: true })
    await expect.poll(types).toContain('waiting')
    const late = startSteps(device)
    for (let step = 0; step < 3; step += 1) {
      steps.step()
      late.step()
    }
    const reading = Promise.all([readBack(device, steps.state), readBack(device, late.state)])
    control.heal()
    expect(await reading).toEqual([expectedState(4), expectedState(3)])
  })

  test('a second loss in the middle of the recovery only makes it longer', async () => {
    const device = await open({ backoffMs: [0, 0, 10] })
    const steps = startSteps(device)
    for (let step = 0; step < 5; step += 1) steps.step()
    await device.queue.onSubmittedWorkDone()
    control.loseAt('submit', 1)
    device.queue.submit([])
    // The next device, too, at the third thing it is given.
    await expect.poll(() => protectionOf(device).stats.losses).toBeGreaterThan(0)
    control.loseAt('submit', 3)
    expect(await readBack(device, steps.state)).toEqual(expectedState(5))
    expect(types().filter((type) => type === 'recovered').length).toBeGreaterThan(0)
  })

  test('a checkpoint cuts what has to be done again, and nothing is missing', async () => {
    const device = await open()
    const steps = startSteps(device)
    for (let step = 0; step < 20; step += 1) steps.step()
    expect(await protectionOf(device).checkpoint()).toBe(true)
    for (let step = 0; step < 3; step += 1) steps.step()
    control.loseAt('submit', 1)
    expect(await readBack(device, steps.state)).toEqual(expectedState(23))
    const recovered = events.find((event) => event.type === 'recovered')
    expect(recovered).toMatchObject({ replayedEntries: 4, restoredBytes: wordCount * 4 })
  })

  test('checkpoints by themselves once the log has grown, and only what changed', async () => {
    const device = await open({ checkpoint: { maxLogBytes: 4096, intervalMs: Number.POSITIVE_INFINITY } })
    const still = device.createBuffer({ size: 2 ** 20, usage: Usage.STORAGE | Usage.COPY_DST })
    device.queue.writeBuffer(still, 0, new Uint8Array(2 ** 20).fill(1))
    await expect.poll(types, patient).toContain('checkpointed')
    const part = new Uint8Array(8192).fill(2)
    await expect
      .poll(async () => {
        device.queue.writeBuffer(still, 512, part)
        await device.queue.onSubmittedWorkDone()
        return events.filter((event) => event.type === 'checkpointed').map(({ bytes }) => bytes)
      })
      .toEqual(expect.arrayContaining([2 ** 20, 8192]))
    expect(protectionOf(device).logBytes).toBeLessThan(2 ** 18)
  })

  test('losses that come faster than checkpoints do not make the log grow for ever', async () => {
    const device = await open({ checkpoint: { intervalMs: 1 } })
    const steps = startSteps(device)
    for (let step = 0; step < 20; step += 1) {
      control.loseAt('submit', 1)
      steps.step()
      await device.queue.onSubmittedWorkDone()
    }
    expect(await readBack(device, steps.state)).toEqual(expectedState(20))
    const { replayedEntries, checkpoints } = protectionOf(device).stats
    expect(checkpoints).toBeGreaterThan(0)
    // All of them again after each loss would be 210.
    expect(replayedEntries).toBeLessThan(100)
  })

  test('objects that nobody has any more are not made again', async () => {
    const device = await open()
    const makeGarbage = (): void => {
      for (let n = 0; n < 200; n += 1) device.createBuffer({ size: 4, usage: Usage.COPY_DST })
    }
    makeGarbage()
    const before = protectionOf(device).objectCount
    expect(before).toBeGreaterThanOrEqual(200)
    await expect
      .poll(() => {
        collectGarbage()
        return protectionOf(device).objectCount
      }, patient)
      .toBeLessThan(10)
  })
})

describe('moving', () => {
  test('goes back to a better GPU that has returned, with everything saved first', async () => {
    let isThere = false
    const gpu = changedDawn({
      adapter: async (ask, { powerPreference, forceFallbackAdapter }) => {
        if (forceFallbackAdapter === true) return null
        const isExternal = powerPreference === 'high-performance'
        if (isExternal && !isThere) return null
        const adapter = await ask()
        return adapter === null ? null : named(adapter, isExternal ? 'External GPU' : 'Internal GPU')
      },
    })
    const device = await open({ gpu })
    const steps = startSteps(device)
    for (let step = 0; step < 5; step += 1) steps.step()
    expect(protectionOf(device).adapter).toBe('Internal GPU')
    isThere = true
    const moving = protectionOf(device).move()
    for (let step = 0; step < 2; step += 1) steps.step()
    await moving
    expect(protectionOf(device)).toMatchObject({ adapter: 'External GPU', epoch: 2, stats: { losses: 0 } })
    steps.step()
    expect(await readBack(device, steps.state)).toEqual(expectedState(8))
    expect(types()).toEqual(['checkpointed', 'moving', 'recovered'])
    // And what is lost from here on is found again here.
    control.loseAt('submit', 1)
    expect(await readBack(device, steps.state)).toEqual(expectedState(8))
    expect(protectionOf(device)).toMatchObject({ adapter: 'External GPU', epoch: 3, stats: { losses: 1 } })
  })

  test('a loss while it is about to move is survived as any other', async () => {
    const device = await open()
    const steps = startSteps(device)
    for (let step = 0; step < 5; step += 1) steps.step()
    control.loseAt('submit', 2)
    await protectionOf(device).move()
    expect(await readBack(device, steps.state)).toEqual(expectedState(5))
  })

  test('a device that was destroyed does not move', async () => {
    const device = await open()
    device.destroy()
    await staying(device.lost)
    await expect(protectionOf(device).move()).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
  })
})

test('leaves no listener on the devices it is done with, which would keep them in memory', async () => {
  const listeners: number[] = []
  const counted = (device: GPUDevice): GPUDevice => {
    const nth = listeners.push(0) - 1
    for (const [name, change] of [
      ['addEventListener', 1],
      ['removeEventListener', -1],
    ] as const) {
      const method = device[name].bind(device) as (...args: readonly unknown[]) => void
      Object.defineProperty(device, name, {
        value: (...args: readonly unknown[]) => {
          listeners[nth] = (listeners[nth] ?? 0) + change
          method(...args)
        },
      })
    }
    return device
  }
  const gpu = changedDawn({ device: async (ask) => counted(await ask()) })
  const device = await open({ gpu })
  expect(listeners).toEqual([1])
  control.loseAt('submit', 1)
  await device.queue.onSubmittedWorkDone()
  expect(listeners).toEqual([0, 1])
  device.destroy()
  await staying(device.lost)
  await expect.poll(() => listeners).toEqual([0, 0])
})

describe('when it cannot go on as if nothing had happened', () => {
  test('an adapter with smaller limits is refused before anything is made on it, and the next one is asked', async () => {
    let isSmall = false
    const small = {
      info: { vendor: 'test', architecture: '', device: '', description: 'Small GPU', isFallbackAdapter: false },
      limits: { maxBufferSize: 1024 },
      features: new Set(),
      requestDevice: () => Promise.reject(new Error('nobody should ask')),
    } as unknown as GPUAdapter
    const gpu = changedDawn({
      adapter: async (ask, { powerPreference }) => (isSmall && powerPreference === 'high-performance' ? small : ask()),
    })
    const device = await open({ gpu, descriptor: { requiredLimits: { maxBufferSize: 2 ** 29 } } })
    const steps = startSteps(device)
    steps.step()
    isSmall = true
    control.loseAt('submit', 1)
    expect(await readBack(device, steps.state)).toEqual(expectedState(1))
    expect(events.find(({ type }) => type === 'refused')).toMatchObject({
      adapter: 'Small GPU',
      error: { code: 'EGPU_TARGET_INCOMPATIBLE', message: 'Small GPU lacks maxBufferSize 536870912 (it has 1024)' },
    })
    expect(protectionOf(device).adapter).toMatch(/SwiftShader/)
  })

  test('without any adapter to begin with it says what each one lacks', async () => {
    const descriptor = { requiredLimits: { maxBufferSize: 2 ** 50 }, requiredFeatures: ['nonsense' as GPUFeatureName] }
    await expect(protectDevice({ descriptor })).rejects.toMatchObject({
      code: 'EGPU_NO_TARGET',
      message: expect.stringMatching(/feature nonsense, maxBufferSize/),
    })
  })

  test('a replay that gives other bytes is told, not hidden', async () => {
    const device = await open({ descriptor: { requiredFeatures: ['timestamp-query'] } })
    // What time it was does not repeat itself.
    const queries = device.createQuerySet({ type: 'timestamp', count: 2 })
    const times = device.createBuffer({ size: 16, usage: Usage.QUERY_RESOLVE | Usage.COPY_SRC })
    const reading = device.createBuffer({ label: 'times', size: 16, usage: Usage.MAP_READ | Usage.COPY_DST })
    const encoder = device.createCommandEncoder()
    const timestampWrites = { querySet: queries, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 }
    encoder.beginComputePass({ timestampWrites }).end()
    encoder.resolveQuerySet(queries, 0, 2, times, 0)
    encoder.copyBufferToBuffer(times, 0, reading, 0, 16)
    device.queue.submit([encoder.finish()])
    await reading.mapAsync(1)
    reading.unmap()
    control.loseAt('submit', 1)
    await device.queue.onSubmittedWorkDone()
    await expect.poll(() => events.find(({ type }) => type === 'diverged')).toMatchObject({ label: 'times', size: 16 })
  })

  test('work that takes every device down is named and given up, other work is not blamed', async () => {
    const device = await open({ backoffMs: [0, 0, 0, 0] })
    const steps = startSteps(device)
    for (let step = 0; step < 3; step += 1) steps.step()
    await device.queue.onSubmittedWorkDone()
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    const module = device.createShaderModule({ code: '@compute @workgroup_size(1) fn main() {}' })
    pass.setPipeline(device.createComputePipeline({ layout: 'auto', compute: { module } }))
    pass.dispatchWorkgroups(13)
    pass.end()
    control.poison(13)
    device.queue.submit([encoder.finish({ label: 'the evil one' })])
    steps.step()
    await expect(device.queue.onSubmittedWorkDone()).rejects.toMatchObject({
      code: 'EGPU_WORKLOAD_FAILED',
      message: expect.stringContaining('the evil one'),
    })
    expect(events.find(({ type }) => type === 'poisoned')).toMatchObject({ labels: ['the evil one'] })
    expect((await device.lost).reason).toBe('unknown')
  })

  test('a loss without end is given up: lost resolves, and what waits is told', async () => {
    const device = await open({ backoffMs: [5], giveUpAfterMs: 30 })
    const steps = startSteps(device)
    steps.step()
    control.lose({ hide: true })
    const pending = readBack(device, steps.state)
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' })
    expect((await staying(device.lost)).reason).toBe('unknown')
    expect(types().at(-1)).toBe('given-up')
    await expect(device.queue.onSubmittedWorkDone()).rejects.toMatchObject({ code: 'EGPU_NO_TARGET' })
  })

  test('destroying it in the middle of a recovery ends it', async () => {
    const device = await open({ backoffMs: [5] })
    control.lose({ hide: true })
    await expect.poll(types).toContain('waiting')
    device.destroy()
    expect((await staying(device.lost)).reason).toBe('destroyed')
  })
})

test('two protected devices and a bare one do not disturb each other', async () => {
  const [one, two] = [await open(), await open()]
  await using driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
  const [target] = await driver.runtime.targets()
  const bare = await driver.runtime.open(target?.id ?? '')
  const all = [one, two].map((device) => ({ device, steps: startSteps(device) }))
  for (const { steps } of all) for (let step = 0; step < 4; step += 1) steps.step()
  control.lose()
  await staying(bare.lost)
  control.heal()
  for (const { device, steps } of all) expect(await readBack(device, steps.state)).toEqual(expectedState(4))
})
