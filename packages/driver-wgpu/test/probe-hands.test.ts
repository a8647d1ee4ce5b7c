import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EGpuErrorCode, RuntimeKind } from '@egpu/core'
import type { OpenTarget } from '@egpu/core'
import { probeHands, wgpuDriver } from '../src/index.ts'
import type { WgpuDriver, WgpuProbeHands } from '../src/index.ts'
import { useRealVulkan } from './support/real-vulkan.ts'

const control = useRealVulkan()
const swiftshader = 'wgpu:vulkan:SwiftShader Device (Subzero)'

let driver: WgpuDriver
let target: OpenTarget<GPUDevice>
beforeEach(async () => {
  driver = wgpuDriver({ heartbeat: { intervalMs: 10 } })
  target = await driver.runtime.open(swiftshader)
})
afterEach(() => driver.close())

const hands = async (): Promise<WgpuProbeHands> => (await probeHands(target)) as WgpuProbeHands
const filled = (byteLength: number): Uint8Array =>
  Uint8Array.from({ length: byteLength }, (_, at) => (Math.imul(at + 1, 2654435761) >>> 13) & 0xff)

describe('the hands of a probe', () => {
  test.each([1, 4, 65_537, 8 * 2 ** 20])('give back the %i bytes that went to the device', async (byteLength) => {
    await using probe = await hands()
    const bytes = filled(byteLength)
    await probe.write(bytes)
    expect(Buffer.compare(await probe.read(byteLength), bytes)).toBe(0)
  })

  test('have bytes that were really there: what is written later is read later', async () => {
    await using probe = await hands()
    const [first, second] = [filled(4096), filled(4096).reverse()]
    await probe.write(first)
    await probe.compute(1e7)
    await probe.stream(2 ** 25)
    expect(Buffer.compare(await probe.read(4096), first)).toBe(0)
    await probe.write(second)
    expect(Buffer.compare(await probe.read(4096), second)).toBe(0)
  })

  test('refuse more than their buffer holds', async () => {
    await using probe = await hands()
    await expect(probe.write(new Uint8Array(8 * 2 ** 20 + 1))).rejects.toThrow(RangeError)
  })

  test('call a device that goes lost, and not fast', async () => {
    await using probe = await hands()
    control.lose({ hide: true })
    for (const work of [
      () => probe.write(filled(4096)),
      () => probe.read(4096),
      () => probe.compute(1e7),
      () => probe.stream(2 ** 25),
    ]) {
      await expect(work()).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost })
    }
  })

  test('are not given for a device that is gone, nor for what is no WebGPU', async () => {
    control.lose({ hide: true })
    await expect(probeHands(target)).rejects.toMatchObject({ code: EGpuErrorCode.DeviceLost })
    const processor = { ...target, target: { ...target.target, runtime: RuntimeKind.Cpu } }
    expect(await probeHands(processor)).toBeUndefined()
  })

  test('are let go of by an abort, with its reason, also while the device hangs', async () => {
    await using probe = await hands()
    const { queue } = target.handle
    // A device that hangs: what was submitted never comes back.
    Object.defineProperty(queue, 'onSubmittedWorkDone', { value: () => new Promise(() => {}) })
    const stop = new AbortController()
    const waiting = [probe.write(filled(16), stop), probe.compute(1e7, stop), probe.stream(2 ** 25, stop)]
    stop.abort(new Error('enough'))
    for (const one of waiting) await expect(one).rejects.toThrow('enough')
    await expect(probeHands(target, { signal: stop.signal })).rejects.toThrow('enough')
  })

  test('are gone twice without harm, and then say so', async () => {
    const probe = await hands()
    await probe[Symbol.asyncDispose]()
    await probe[Symbol.asyncDispose]()
    await expect(probe.write(filled(16))).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
  })
})
