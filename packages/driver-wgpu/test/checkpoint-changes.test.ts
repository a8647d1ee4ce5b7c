import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { OpenTarget, StateRange } from '@egpu/core'
import { checkpointBuffers, wgpuDriver } from '../src/index.ts'
import type { FrozenBuffers, WgpuDriver } from '../src/index.ts'
import { collect } from './support/collect.ts'
import { useRealVulkan } from './support/real-vulkan.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'
const page = 4096

let driver: WgpuDriver
let target: OpenTarget<GPUDevice>
beforeEach(async () => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
  const open = await driver.runtime.open(swiftshader)
  // On the CPU nothing is compared, so it passes for a GPU.
  target = { ...open, target: { ...open.target, kind: 'gpu' } }
})
afterEach(() => driver.close())

function filled(byteLength: number, seed: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: byteLength }, (_, at) => (Math.imul(at + seed, 2654435761) >>> 13) & 0xff)
}

function create(bytes: Uint8Array<ArrayBuffer>): GPUBuffer {
  const buffer = target.handle.createBuffer({ size: bytes.byteLength, usage: 0x8c })
  target.handle.queue.writeBuffer(buffer, 0, bytes)
  return buffer
}

/** What somebody has who kept the state before and reads only what changed. */
async function patched(before: Uint8Array, frozen: FrozenBuffers): Promise<Uint8Array> {
  const after = before.slice()
  for (const range of frozen.changed as readonly StateRange[]) {
    const bytes = Buffer.concat(await collect(frozen.readRange(range)))
    expect(bytes.byteLength).toBe(range.byteLength)
    after.set(bytes, range.byteOffset)
  }
  return after
}

const bytesOf = (ranges: readonly StateRange[] | undefined): number =>
  (ranges ?? []).reduce((sum, { byteLength }) => sum + byteLength, 0)

describe('freezing what changed', () => {
  test('names nothing to begin with, nothing when nothing changed, and a single changed bit anywhere', async () => {
    const before = filled(37 * page + 12, 1)
    const state = create(before)
    using checkpoint = checkpointBuffers(target, { state })
    expect((await checkpoint.freezeChanges(0)).changed).toBeUndefined()
    expect((await checkpoint.freezeChanges(1)).changed).toEqual([])
    for (const at of [0, page - 1, page, 20 * page + 777, before.byteLength - 1]) {
      before[at] = (before[at] as number) ^ 1
      target.handle.queue.writeBuffer(state, at - (at % 4), before, at - (at % 4), 4)
      await using frozen = await checkpoint.freezeChanges(2)
      const byteOffset = at - (at % page)
      const byteLength = Math.min(page, before.byteLength - byteOffset)
      expect(frozen.changed).toEqual([{ part: 'state', byteOffset, byteLength }])
      expect(Buffer.concat(await collect(frozen.readRange({ part: 'state', byteOffset, byteLength })))).toEqual(
        Buffer.from(before.subarray(byteOffset, byteOffset + byteLength)),
      )
    }
  })

  test('gives the whole state to whoever has the one before, whatever the shape of the changes', async () => {
    const state = create(filled(200 * page, 3))
    const still = create(filled(page, 4))
    using checkpoint = checkpointBuffers(target, { state, still }, { chunkBytes: 8 * page, slots: 2 })
    const keep = async (frozen: FrozenBuffers): Promise<Uint8Array> =>
      Uint8Array.from(Buffer.concat(await collect(frozen.read('state'))))
    let before = await keep(await checkpoint.freezeChanges(0))
    for (const spans of [
      [[0, 200]],
      [
        [1, 1],
        [3, 1],
        [50, 20],
        [199, 1],
      ],
      Array.from({ length: 50 }, (_, at) => [at * 4, 1]),
    ]) {
      for (const [first = 0, count = 0] of spans) {
        const bytes = filled(count * page, first + count)
        target.handle.queue.writeBuffer(state, first * page, bytes)
      }
      await using frozen = await checkpoint.freezeChanges(1)
      const pages = spans.reduce((sum, [, count = 0]) => sum + count, 0)
      expect(bytesOf(frozen.changed)).toBe(pages * page)
      before = await patched(before, frozen)
      expect(Buffer.from(before).equals(await keep(frozen))).toBe(true)
    }
  })

  test('compares with the very freeze before it, also when several are under way', async () => {
    const state = create(filled(8 * page, 5))
    using checkpoint = checkpointBuffers(target, { state })
    const write = (at: number, value: number): void =>
      target.handle.queue.writeBuffer(state, at * page, new Uint8Array(page).fill(value))
    const first = checkpoint.freezeChanges(0)
    write(2, 1)
    const second = checkpoint.freezeChanges(1)
    write(5, 2)
    const third = checkpoint.freezeChanges(2)
    expect((await first).changed).toBeUndefined()
    expect((await second).changed).toMatchObject([{ byteOffset: 2 * page }])
    expect((await third).changed).toMatchObject([{ byteOffset: 5 * page }])
  })

  test('knows nothing after a plain freeze, a restore, or one that nobody got', async () => {
    const state = create(filled(4 * page, 6))
    using checkpoint = checkpointBuffers(target, { state })
    await checkpoint.freezeChanges(0)
    const plain = checkpoint.freeze(1)
    expect((await checkpoint.freezeChanges(2)).changed).toBeUndefined()
    expect((await checkpoint.freezeChanges(3)).changed).toEqual([])
    await checkpoint.restore(plain)
    expect((await checkpoint.freezeChanges(4)).changed).toBeUndefined()
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(checkpoint.freezeChanges(5, { signal })).rejects.toThrow('enough')
    expect((await checkpoint.freezeChanges(6)).changed).toBeUndefined()
  })

  test('reads any range, in any order, more than once', async () => {
    const before = filled(3 * page, 7)
    const state = create(before)
    using checkpoint = checkpointBuffers(target, { state }, { chunkBytes: 1000, slots: 2 })
    await using frozen = await checkpoint.freezeChanges(0)
    for (const [byteOffset, byteLength] of [
      [5000, 1],
      [1, 3 * page - 1],
      [0, 0],
      [3 * page - 3, 3],
    ] as const) {
      const bytes = Buffer.concat(await collect(frozen.readRange({ part: 'state', byteOffset, byteLength })))
      expect(bytes).toEqual(Buffer.from(before.subarray(byteOffset, byteOffset + byteLength)))
    }
    const beyond = frozen.readRange({ part: 'state', byteOffset: page, byteLength: 3 * page })
    await expect(collect(beyond)).rejects.toThrow(RangeError)
  })

  test('is no more than freezing where there is no cable', async () => {
    const onCpu = await driver.runtime.open(swiftshader)
    const state = onCpu.handle.createBuffer({ size: page, usage: 0xc })
    using checkpoint = checkpointBuffers(onCpu, { state })
    await checkpoint.freezeChanges(0)
    expect((await checkpoint.freezeChanges(1)).changed).toBeUndefined()
  })

  test('never answers from a lost device', async () => {
    const state = create(filled(4 * page, 8))
    using checkpoint = checkpointBuffers(target, { state })
    await checkpoint.freezeChanges(0)
    control.loseAt('submit', 1)
    await expect(checkpoint.freezeChanges(1)).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST' })
  })
})
