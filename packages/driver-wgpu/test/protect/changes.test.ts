import { afterEach, beforeEach, expect, test } from 'vitest'
import { protectDevice, protectionOf } from '../../src/index.ts'
import type { ProtectionEvent, ProtectOptions } from '../../src/index.ts'
import { changedDawn } from '../support/dawn.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { read, Usage } from './workloads/workload.ts'

// As a graphics card: on the CPU nothing is compared.
const control = useRealVulkan({ disguise: 'Test GPU' })

const page = 4096
const size = 256 * page
const usage = Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST

let device: GPUDevice
let events: ProtectionEvent[]
async function open(options: ProtectOptions = {}): Promise<GPUDevice> {
  device = await protectDevice({
    checkpoint: { intervalMs: Number.POSITIVE_INFINITY, maxLogBytes: Number.POSITIVE_INFINITY },
    onEvent: (event) => events.push(event),
    ...options,
  })
  return device
}
beforeEach(() => {
  events = []
})
afterEach(async () => {
  device?.destroy()
  await device?.lost
})

/** Takes a checkpoint, and returns the bytes it moved. */
async function checkpoint(): Promise<number> {
  expect(await protectionOf(device).checkpoint()).toBe(true)
  const last = events.at(-1)
  return last?.type === 'checkpointed' ? last.bytes : Number.NaN
}

/** A shader that may write any word of a buffer, and sets some of them. */
function setter(buffer: GPUBuffer): (first: number, count: number, value: number) => void {
  const code = /* wgsl */ `
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @group(0) @binding(1) var<uniform> what: vec4u;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
      if (id.x < what.y) { words[what.x + id.x] = what.z; }
    }`
  const module = device.createShaderModule({ code })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } })
  return (first, count, value) => {
    const what = device.createBuffer({ size: 16, usage: Usage.UNIFORM | Usage.COPY_DST })
    device.queue.writeBuffer(what, 0, Uint32Array.of(first, count, value, 0))
    const entries = [buffer, what].map((one, binding) => ({ binding, resource: { buffer: one } }))
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
    pass.dispatchWorkgroups(Math.ceil(count / 64))
    pass.end()
    device.queue.submit([encoder.finish()])
    what.destroy()
  }
}

/** A GPU whose devices refuse, when told to, the copies that a checkpoint makes: they are larger than they can be. */
function withRefusals(isRefusing: () => boolean): GPU {
  const patched = (real: GPUDevice): GPUDevice => {
    const make = real.createBuffer.bind(real)
    const createBuffer = (given: GPUBufferDescriptor): GPUBuffer =>
      make(given.label === 'egpu checkpoint' && isRefusing() ? { ...given, size: 2 ** 40 } : given)
    return Object.defineProperty(real, 'createBuffer', { value: createBuffer })
  }
  return changedDawn({ device: async (ask) => patched(await ask()) })
}

test('moves what shaders changed of what they may have changed, and brings all of it back', async () => {
  await open()
  const buffer = device.createBuffer({ size, usage })
  const set = setter(buffer)
  const expected = new Uint32Array(size / 4)
  const setBoth = (first: number, count: number, value: number): void => {
    set(first, count, value)
    expected.fill(value, first, first + count)
  }
  setBoth(0, size / 4, 7)
  expect(await checkpoint()).toBe(size)
  // Sixteen whole pages, four places.
  for (const at of [0, 31, 100, 252]) setBoth((at * page) / 4, page, 1000 + at)
  const dirtyBytes = 16 * page
  const moved = await checkpoint()
  expect(moved).toBeGreaterThanOrEqual(dirtyBytes)
  expect(moved).toBeLessThanOrEqual(1.1 * dirtyBytes)
  // Written, not changed.
  setBoth(0, page, 1000)
  expect(await checkpoint()).toBe(0)
  // There and back again, with a checkpoint in between: the last one counts.
  setBoth(5000, 3, 1)
  expect(await checkpoint()).toBe(page)
  setBoth(5000, 3, 7)
  expect(await checkpoint()).toBe(page)
  // The host knows to the byte what it writes.
  device.queue.writeBuffer(buffer, 40, Uint32Array.of(9))
  expected[10] = 9
  expect(await checkpoint()).toBe(4)
  control.loseAt('submit', 1)
  expect(Buffer.compare(await read(device, buffer, () => {}), Buffer.from(expected.buffer))).toBe(0)
  // The next device knows nothing of what was before it.
  setBoth(77, 5, 5)
  expect(await checkpoint()).toBeGreaterThanOrEqual(20)
  control.loseAt('submit', 1)
  expect(Buffer.compare(await read(device, buffer, () => {}), Buffer.from(expected.buffer))).toBe(0)
  expect(events.filter(({ type }) => type === 'recovered')).toMatchObject([{ restoredBytes: size }, {}])
})

test('a buffer that ends within a page, one that is too small to compare, and one that nobody writes', async () => {
  await open()
  const sizes = [20 * page + 12, 100, page]
  const buffers = sizes.map((bytes) => device.createBuffer({ size: bytes, usage }))
  const contents = sizes.map((bytes, nth) => Uint8Array.from({ length: bytes }, (_, at) => (at * 7 + nth) & 0xff))
  for (const nth of [0, 1])
    device.queue.writeBuffer(buffers[nth] as GPUBuffer, 0, contents[nth] as Uint8Array<ArrayBuffer>)
  contents[2]?.fill(0)
  expect(await checkpoint()).toBe(20 * page + 112)
  setter(buffers[0] as GPUBuffer)(5 * page + 2, 1, 0x01010101)
  contents[0]?.fill(1, 20 * page + 8)
  expect(await checkpoint()).toBe(12)
  control.loseAt('submit', 1)
  for (const [nth, buffer] of buffers.entries()) {
    expect(Buffer.compare(await read(device, buffer, () => {}), contents[nth] as Uint8Array)).toBe(0)
  }
})

test('a checkpoint that the device refuses is told, and the next one has everything', async () => {
  let mayFail = false
  await open({ gpu: withRefusals(() => mayFail) })
  const buffer = device.createBuffer({ size, usage })
  const set = setter(buffer)
  set(0, size / 4, 1)
  await checkpoint()
  set(3 * page, 10, 2)
  mayFail = true
  expect(await protectionOf(device).checkpoint()).toBe(false)
  expect(events.at(-1)).toMatchObject({ type: 'checkpoint-failed', message: expect.stringMatching(/./) })
  mayFail = false
  expect(await checkpoint()).toBeGreaterThanOrEqual(40)
  control.loseAt('submit', 1)
  const words = new Uint32Array((await read(device, buffer, () => {})).slice().buffer)
  expect(words.slice(3 * page - 1, 3 * page + 11)).toEqual(Uint32Array.of(1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1))
})

test('a checkpoint that is held lets the application go on, and comes when it may', async () => {
  let rate: number | undefined = 0
  await open({ checkpoint: { intervalMs: 1, chunkBytes: page, bytesPerSecond: () => rate } })
  const buffer = device.createBuffer({ size, usage })
  const set = setter(buffer)
  for (let round = 1; round <= 5; round += 1) {
    set(0, size / 4, round)
    // Long overdue by now.
    await new Promise((resolve) => setTimeout(resolve, 10))
    await device.queue.onSubmittedWorkDone()
  }
  expect(protectionOf(device).stats.checkpoints).toBe(0)
  rate = undefined
  expect(await protectionOf(device).checkpoint()).toBe(true)
  control.loseAt('submit', 1)
  const words = new Uint32Array((await read(device, buffer, () => {})).slice().buffer)
  expect(words.every((word) => word === 5)).toBe(true)
})
