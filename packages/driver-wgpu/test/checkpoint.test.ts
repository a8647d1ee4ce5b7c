import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { OpenTarget, SavedState } from '@egpu/core'
import { checkpointBuffers, wgpuDriver } from '../src/index.ts'
import type { WgpuDriver } from '../src/index.ts'
import { collect } from './support/collect.ts'
import { useRealVulkan } from './support/real-vulkan.ts'
import { expectedState, readBack, startSteps, wordCount } from './support/workload.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'
/** Smaller than the buffer and no divisor of it, so that several pieces and a rest go round the ring. */
const ring = { chunkBytes: 1100, slots: 2 }

let driver: WgpuDriver
let target: OpenTarget<GPUDevice>
beforeEach(async () => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
  target = await driver.runtime.open(swiftshader)
})
afterEach(() => driver.close())

async function keep(state: SavedState): Promise<SavedState> {
  const bytes = new Map<string, Uint8Array[]>()
  for (const { name } of state.parts) bytes.set(name, await collect(state.read(name)))
  return {
    progress: state.progress,
    parts: state.parts,
    async *read(part) {
      yield* bytes.get(part) ?? []
    },
  }
}

describe('freezing', () => {
  test('copies what was submitted before it and nothing of what comes after', async () => {
    const steps = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state: steps.state }, ring)
    for (let step = 0; step < 5; step += 1) steps.step()
    await using frozen = checkpoint.freeze(5)
    for (let step = 0; step < 4; step += 1) steps.step()
    const bytes = Buffer.concat(await collect(frozen.read('state')))
    expect(new Uint32Array(bytes.buffer, bytes.byteOffset, wordCount)).toEqual(expectedState(5))
    expect(await readBack(target.handle, steps.state)).toEqual(expectedState(9))
  })

  test('keeps two copies apart', async () => {
    const steps = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state: steps.state }, ring)
    steps.step()
    await using one = checkpoint.freeze(1)
    steps.step()
    await using two = checkpoint.freeze(2)
    const [first, second] = await Promise.all([keep(one), keep(two)])
    for (const [state, count] of [
      [first, 1],
      [second, 2],
    ] as const) {
      await checkpoint.restore(state)
      expect(await readBack(target.handle, steps.state)).toEqual(expectedState(count))
    }
  })

  test('never gives bytes of a lost device', async () => {
    const steps = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state: steps.state }, ring)
    steps.step()
    const frozen = checkpoint.freeze(1)
    const reading = frozen.read('state')[Symbol.asyncIterator]()
    await reading.next()
    control.lose()
    const rest = async (): Promise<void> => {
      while ((await reading.next()).done !== true);
    }
    await expect(rest()).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST' })
    await target.lost
    expect(() => checkpoint.freeze(2)).toThrow(expect.objectContaining({ code: 'EGPU_DEVICE_LOST' }))
  })

  test('ends with the abort reason', async () => {
    const { state } = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state }, ring)
    await using frozen = checkpoint.freeze(0)
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(collect(frozen.read('state', { signal }))).rejects.toThrow('enough')
  })
})

describe('restoring', () => {
  test('brings the state of a lost device to the next one, bit-exact', async () => {
    const before = startSteps(target.handle)
    const saving = checkpointBuffers(target, { state: before.state }, ring)
    for (let step = 0; step < 6; step += 1) before.step()
    const saved = await keep(saving.freeze(6))
    control.lose()
    before.step()
    await target.lost
    control.heal()

    const next = await driver.runtime.open(swiftshader)
    const after = startSteps(next.handle)
    using checkpoint = checkpointBuffers(next, { state: after.state }, ring)
    await checkpoint.restore(saved)
    for (let step = 0; step < 3; step += 1) after.step()
    expect(await readBack(next.handle, after.state)).toEqual(expectedState(9))
  })

  test('takes pieces of any size', async () => {
    const { state } = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state }, ring)
    const bytes = new Uint8Array(expectedState(11).buffer)
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 7) % 3001)
        yield bytes.subarray(at, at + size)
    }
    await checkpoint.restore({ progress: 11, parts: [{ name: 'state', byteLength: state.size }], read: pieces })
    expect(await readBack(target.handle, state)).toEqual(expectedState(11))
  })

  test('refuses a state of other buffers or other sizes with EGPU_CHECKPOINT_CORRUPT', async () => {
    const { state } = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state }, ring)
    const give = (name: string, byteLength: number, actual: number): SavedState => ({
      progress: 0,
      parts: [{ name, byteLength }],
      async *read() {
        yield new Uint8Array(actual)
      },
    })
    const corrupt = { code: 'EGPU_CHECKPOINT_CORRUPT' }
    await expect(checkpoint.restore(give('other', state.size, state.size))).rejects.toMatchObject(corrupt)
    await expect(checkpoint.restore(give('state', 16, 16))).rejects.toMatchObject(corrupt)
    await expect(checkpoint.restore(give('state', state.size, state.size - 4))).rejects.toMatchObject(corrupt)
    await expect(checkpoint.restore(give('state', state.size, state.size - 3))).rejects.toMatchObject(corrupt)
    await expect(checkpoint.restore(give('state', state.size, state.size + 1))).rejects.toMatchObject(corrupt)
    // The ring is whole: nothing of the failures is left in it.
    await checkpoint.restore(give('state', state.size, state.size))
    expect(await readBack(target.handle, state)).toEqual(expectedState(0))
  })

  test('does not call a restore done that the device did not live to see', async () => {
    const { state } = startSteps(target.handle)
    using checkpoint = checkpointBuffers(target, { state }, ring)
    const saved = await keep(checkpoint.freeze(0))
    control.loseAt('submit', 3)
    await expect(checkpoint.restore(saved)).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST' })
  })
})

test('refuses buffers that cannot be copied', () => {
  const { handle } = target
  const declare = (size: number, usage: number) => () =>
    checkpointBuffers(target, { state: handle.createBuffer({ size, usage }) })
  expect(declare(16, 0x80 | 0x8)).toThrow(/COPY_SRC/)
  expect(declare(16, 0x80 | 0x4)).toThrow(/COPY_DST/)
  expect(declare(18, 0x80 | 0xc)).toThrow(/multiple of 4/)
})
