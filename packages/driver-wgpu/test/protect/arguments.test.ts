import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protectDevice, protectionOf, wgpuDriver } from '../../src/index.ts'
import type { ProtectOptions } from '../../src/index.ts'
import { heldDeviceCount } from '../../src/device/held-devices.ts'
import { useRealVulkan } from '../support/real-vulkan.ts'
import { read, Usage } from './workloads/workload.ts'

const control = useRealVulkan()

describe('what calls take', () => {
  let device: GPUDevice
  beforeEach(async () => {
    device = await protectDevice({ checkpoint: { intervalMs: Number.POSITIVE_INFINITY } })
  })
  afterEach(async () => {
    device?.destroy()
    await device?.lost
  })

  /** Writes 1 to the 64 words at each dynamic offset, in one pass. */
  function markAt(buffer: GPUBuffer, set: (pass: GPUComputePassEncoder, group: GPUBindGroup) => void): void {
    const code = /* wgsl */ `
      @group(0) @binding(0) var<storage, read_write> words: array<u32, 64>;
      @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) at: u32) { words[at] = 1u; }`
    const entry = { binding: 0, visibility: 4, buffer: { type: 'storage', hasDynamicOffset: true } } as const
    const layout = device.createBindGroupLayout({ entries: [entry] })
    const pipeline = device.createComputePipeline({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module: device.createShaderModule({ code }) },
    })
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    set(pass, device.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer, size: 256 } }] }))
    pass.dispatchWorkgroups(1)
    pass.end()
    device.queue.submit([encoder.finish()])
  }

  test('dynamic offsets come as a list, or as a part of a typed array that is used again, also after a loss', async () => {
    const buffer = device.createBuffer({ size: 1024, usage: Usage.STORAGE | Usage.COPY_SRC })
    const offsets = Uint32Array.of(9, 512, 9)
    markAt(buffer, (pass, group) => {
      pass.setBindGroup(0, group, offsets, 1, 1)
      offsets.fill(9)
    })
    markAt(buffer, (pass, group) => pass.setBindGroup(0, group, [768]))
    control.loseAt('submit', 1)
    const words = new Uint32Array((await read(device, buffer, () => {})).slice().buffer)
    expect(words.indexOf(1)).toBe(128)
    expect(words.filter((word) => word === 1).length).toBe(128)
    expect(protectionOf(device).stats.losses).toBe(1)
  })

  test('a size that is a fraction, or none, is what it is to the bare device', async () => {
    await using driver = wgpuDriver()
    const [target] = await driver.runtime.targets()
    const { handle: bare } = await driver.runtime.open(target?.id ?? '')
    const ask = (one: GPUDevice, size: unknown): unknown => {
      try {
        return one.createBuffer({ size, usage: Usage.COPY_SRC | Usage.COPY_DST } as GPUBufferDescriptor).size
      } catch (error) {
        return (error as Error).constructor.name
      }
    }
    for (const size of [16, 16.5, Number.NaN, -1, undefined]) expect(ask(device, size)).toBe(ask(bare, size))
  })

  test('a size that is no whole number is saved and brought back as the one it stands for', async () => {
    const size = 4096.25
    const buffer = device.createBuffer({ size, usage: Usage.COPY_SRC | Usage.COPY_DST, mappedAtCreation: true })
    new Uint8Array(buffer.getMappedRange()).fill(7)
    buffer.unmap()
    expect(await protectionOf(device).checkpoint()).toBe(true)
    control.loseAt('submit', 1)
    expect((await read(device, buffer, () => {})).every((byte) => byte === 7)).toBe(true)
  })
})

describe('options that cannot be', () => {
  test.each<readonly [string, ProtectOptions]>([
    ['heartbeat.intervalMs', { heartbeat: { intervalMs: 0 } }],
    ['heartbeat.hangMs', { heartbeat: { hangMs: Number.NaN } }],
    ['checkpoint.slots', { checkpoint: { slots: 0 } }],
    ['checkpoint.chunkBytes', { checkpoint: { chunkBytes: 5 } }],
    ['checkpoint.bytesPerSecond', { checkpoint: { bytesPerSecond: -1 } }],
    ['checkpoint.maxLogBytes', { checkpoint: { maxLogBytes: Number.NaN } }],
    ['checkpoint.intervalMs', { checkpoint: { intervalMs: -1 } }],
    ['backoffMs', { backoffMs: [0, -1] }],
    ['giveUpAfterMs', { giveUpAfterMs: Number.NaN }],
  ])('%s is a TypeError that names it, and leaves no device behind', async (name, options) => {
    const word = name.split('.').at(-1) ?? ''
    await expect(protectDevice(options)).rejects.toThrow(new RegExp(`^${word}`))
    await expect(protectDevice(options)).rejects.toThrow(TypeError)
    expect(heldDeviceCount()).toBe(0)
  })
})
