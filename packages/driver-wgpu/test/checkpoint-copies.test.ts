import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { OpenTarget, SavedState } from '@egpu/core'
import { checkpointBuffers, wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { collect } from './support/collect.ts'
import { useRealVulkan } from './support/real-vulkan.ts'
import { readBack } from './support/workload.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'
const mebibyte = 2 ** 20

let driver: WgpuDriver
let target: OpenTarget<GPUDevice>
beforeEach(async () => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
  target = await driver.runtime.open(swiftshader)
})
afterEach(() => driver.close())

function words(byteLength: number, seed: number): Uint8Array<ArrayBuffer> {
  const all = Uint32Array.from({ length: byteLength / 4 }, (_, at) => Math.imul(at + seed, 2654435761))
  return new Uint8Array(all.buffer)
}

function create(bytes: Uint8Array<ArrayBuffer>): GPUBuffer {
  const buffer = target.handle.createBuffer({ size: bytes.byteLength, usage: 0x8c })
  target.handle.queue.writeBuffer(buffer, 0, bytes)
  return buffer
}

const stateOf = (name: string, bytes: Uint8Array, pieceBytes: number): SavedState => ({
  progress: 0,
  parts: [{ name, byteLength: bytes.byteLength }],
  async *read() {
    for (let at = 0; at < bytes.byteLength; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
  },
})

describe('large states, which native threads copy', () => {
  const bytes = words(21 * mebibyte + 12, 1)

  test('are read into new memory and into memory that is there, to the last byte', async () => {
    using checkpoint = checkpointBuffers(target, { state: create(bytes) }, { chunkBytes: 4 * mebibyte, slots: 3 })
    await using frozen = checkpoint.freeze(0)
    expect(Buffer.concat(await collect(frozen.read('state'))).equals(bytes)).toBe(true)
    const host = new Uint8Array(bytes.byteLength + 7).subarray(7)
    await frozen.drainInto('state', host)
    expect(Buffer.from(host).equals(bytes)).toBe(true)
    await expect(frozen.drainInto('state', host.subarray(1))).rejects.toThrow(TypeError)
  })

  test('are restored from pieces of any size', async () => {
    const state = create(new Uint8Array(bytes.byteLength))
    using checkpoint = checkpointBuffers(target, { state }, { chunkBytes: 4 * mebibyte, slots: 3 })
    for (const pieceBytes of [bytes.byteLength, 3 * mebibyte + 1, 100_003]) {
      target.handle.queue.writeBuffer(state, 0, new Uint8Array(bytes.byteLength))
      await checkpoint.restore(stateOf('state', bytes, pieceBytes))
      expect(Buffer.from((await readBack(target.handle, state)).buffer).equals(bytes)).toBe(true)
    }
  })

  test('outlive a device that is destroyed or lost in the middle of a copy', async () => {
    for (const end of ['destroy', 'close', 'lose'] as const) {
      target = await driver.runtime.open(swiftshader)
      const checkpoint = checkpointBuffers(target, { state: create(bytes) }, { chunkBytes: 2 * mebibyte, slots: 4 })
      const frozen = checkpoint.freeze(0)
      const reading = frozen.drainInto('state', new Uint8Array(bytes.byteLength))
      const iterator = frozen.read('state')[Symbol.asyncIterator]()
      await iterator.next()
      const rest = collect({ [Symbol.asyncIterator]: () => iterator })
      if (end === 'destroy') target.handle.destroy()
      if (end === 'close') checkpoint.close()
      if (end === 'lose') control.lose()
      const outcomes = await Promise.allSettled([reading, rest, checkpoint.restore(stateOf('state', bytes, mebibyte))])
      const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
      expect(failures.length).toBeGreaterThan(0)
      for (const failure of failures) {
        expect(failure).toMatchObject({ code: expect.stringMatching(/^EGPU_(DEVICE_LOST|CLOSED)$/) })
      }
      control.heal()
      checkpoint.close()
      await target.close()
    }
  })
})

test('a restore that does not come to its end changes nothing', async () => {
  const before = words(64 * 1024, 2)
  const state = create(before)
  using checkpoint = checkpointBuffers(target, { state })
  const broken = { ...stateOf('state', words(64 * 1024 - 4, 3), 1000), parts: [{ name: 'state', byteLength: 65536 }] }
  await expect(checkpoint.restore(broken)).rejects.toMatchObject({ code: 'EGPU_CHECKPOINT_CORRUPT' })
  expect(new Uint8Array((await readBack(target.handle, state)).buffer)).toEqual(before)
})

test('a reading that was given up leaves the ring whole', async () => {
  const bytes = words(64 * 1024, 4)
  using checkpoint = checkpointBuffers(target, { state: create(bytes) }, { chunkBytes: 4096, slots: 2 })
  await using frozen = checkpoint.freeze(0)
  for (let round = 0; round < 5; round += 1) {
    const caller = new AbortController()
    const reading = collect(frozen.read('state', { signal: caller.signal }))
    queueMicrotask(() => caller.abort(new Error('enough')))
    await expect(reading).rejects.toThrow('enough')
    await expect(frozen.drainInto('state', new Uint8Array(bytes.byteLength), caller)).rejects.toThrow('enough')
  }
  expect(Buffer.concat(await collect(frozen.read('state'))).equals(bytes)).toBe(true)
})

describe('textures', () => {
  test('are saved and brought back with all their levels and layers', async () => {
    const { handle: device } = target
    const make = (): GPUTexture =>
      device.createTexture({ size: [33, 17, 3], format: 'rgba8unorm', mipLevelCount: 3, usage: 0x3 })
    const fill = (texture: GPUTexture, seed: number): void => {
      for (const mipLevel of [0, 1, 2]) {
        const [width, height] = [33 >> mipLevel, 17 >> mipLevel]
        const layout = { bytesPerRow: width * 4, rowsPerImage: height }
        device.queue.writeTexture({ texture, mipLevel }, words(width * height * 3 * 4, seed), layout, [
          width,
          height,
          3,
        ])
      }
    }
    const image = make()
    const buffer = create(words(64, 1))
    fill(image, 9)
    using checkpoint = checkpointBuffers(target, { image, buffer }, { chunkBytes: 4096 })
    await using frozen = checkpoint.freeze(0)
    const saved = Buffer.concat(await collect(frozen.read('image')))
    fill(image, 10)
    expect(Buffer.concat(await collect(checkpoint.freeze(2).read('image'))).equals(saved)).toBe(false)
    await checkpoint.restore(frozen)
    expect(Buffer.concat(await collect(checkpoint.freeze(3).read('image'))).equals(saved)).toBe(true)
  })

  test('that copies cannot carry are refused by name', () => {
    const { handle: device } = target
    const declare = (descriptor: Omit<GPUTextureDescriptor, 'size'>) => () =>
      checkpointBuffers(target, { image: device.createTexture({ size: [8, 8], ...descriptor }) })
    expect(declare({ format: 'depth24plus', usage: 0x13 })).toThrow(/image is depth24plus/)
    expect(declare({ format: 'rgba8unorm', usage: 0x1 })).toThrow(/image lacks usage COPY_DST/)
    expect(declare({ format: 'rgba8unorm', usage: 0x13, sampleCount: 4 })).toThrow(/multisampled/)
  })
})

describe('the rate', () => {
  test('is held, in both directions', async () => {
    const bytes = words(256 * 1024, 5)
    const bytesPerSecond = 2 * mebibyte
    const options = { chunkBytes: 16 * 1024, bytesPerSecond }
    using checkpoint = checkpointBuffers(target, { state: create(bytes) }, options)
    await using frozen = checkpoint.freeze(0)
    const fastestMs = ((bytes.byteLength - options.chunkBytes) / bytesPerSecond) * 1000
    for (const move of [() => collect(frozen.read('state')), () => checkpoint.restore(frozen)]) {
      const begun = performance.now()
      await move()
      // Timers know whole milliseconds and may be early by one; without a rate this takes a few.
      expect(performance.now() - begun).toBeGreaterThanOrEqual(fastestMs * 0.9)
    }
  })

  test('can be brought down to nothing and up again while a copy runs', async () => {
    let rate: number | undefined = 0
    let asked = 0
    const bytesPerSecond = (): number | undefined => {
      asked += 1
      if (asked === 3) rate = undefined
      return rate
    }
    using checkpoint = checkpointBuffers(target, { state: create(words(4096, 6)) }, { bytesPerSecond })
    await using frozen = checkpoint.freeze(0)
    expect(Buffer.concat(await collect(frozen.read('state')))).toHaveLength(4096)
    expect(asked).toBe(3)
    rate = 0
    asked = 10
    const caller = new AbortController()
    setTimeout(() => caller.abort(new Error('enough')), 60)
    await expect(collect(frozen.read('state', caller))).rejects.toThrow('enough')
  })

  test('must be above 0', () => {
    const declare = (bytesPerSecond: number) => () =>
      checkpointBuffers(target, { state: create(words(16, 1)) }, { bytesPerSecond })
    expect(declare(0)).toThrow(TypeError)
    expect(declare(Number.NaN)).toThrow(TypeError)
  })
})
