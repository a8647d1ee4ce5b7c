import { join, read, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const mix = /* wgsl */ `
struct Step { salt: u32, shift: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> before: array<u32>;
@group(0) @binding(2) var<storage, read_write> after: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let n = arrayLength(&before);
  after[id.x] = (before[id.x] * 1664525u + step.salt) ^ (before[(id.x + step.shift) % n] >> 3u);
}`

const sum = /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> total: array<atomic<u32>>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  atomicAdd(&total[id.x % 4u], values[id.x]);
}`

const words = 1024
const steps = 6

/**
 * Several pipelines, ping-pong between two buffers, uniforms with dynamic offsets in an explicit layout, an indirect
 * dispatch, atomics, a buffer filled while mapped at creation, in-between readbacks.
 */
export const compute: Workload = {
  name: 'compute with several pipelines',
  async run(device, pause) {
    const { queue } = device
    const ping = device.createBuffer({ size: words * 4, usage: Usage.STORAGE | Usage.COPY_SRC, mappedAtCreation: true })
    new Uint32Array(ping.getMappedRange()).set(Uint32Array.from({ length: words }, (_, i) => i * 2654435761))
    ping.unmap()
    const pong = device.createBuffer({ size: words * 4, usage: Usage.STORAGE | Usage.COPY_SRC })
    const total = device.createBuffer({ size: 16, usage: Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST })
    const uniforms = device.createBuffer({ size: 256 * 3, usage: Usage.UNIFORM | Usage.COPY_DST })
    const indirect = device.createBuffer({ size: 12, usage: Usage.INDIRECT | Usage.COPY_DST })
    queue.writeBuffer(indirect, 0, new Uint32Array([words / 64, 1, 1]))
    const layout = device.createBindGroupLayout({
      entries: [
        { binding: 0, visibility: 4, buffer: { type: 'uniform', hasDynamicOffset: true, minBindingSize: 8 } },
        { binding: 1, visibility: 4, buffer: { type: 'read-only-storage' } },
        { binding: 2, visibility: 4, buffer: { type: 'storage' } },
      ],
    })
    const mixing = await device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module: device.createShaderModule({ code: mix }) },
    })
    await pause()
    const summing = device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: sum }), entryPoint: 'main' },
    })
    const groups = [
      [ping, pong],
      [pong, ping],
    ].map(([from, to]) =>
      device.createBindGroup({
        layout,
        entries: [
          { binding: 0, resource: { buffer: uniforms, size: 8 } },
          { binding: 1, resource: { buffer: from as GPUBuffer } },
          { binding: 2, resource: { buffer: to as GPUBuffer } },
        ],
      }),
    )
    const sumGroup = device.createBindGroup({
      layout: summing.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: { buffer: pong } },
        { binding: 1, resource: { buffer: total } },
      ],
    })
    const parts: Uint8Array[] = []
    for (let step = 0; step < steps; step += 1) {
      queue.writeBuffer(uniforms, 256 * (step % 3), new Uint32Array([step * 77 + 1, step + 1]))
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(mixing)
      pass.setBindGroup(0, groups[step % 2], [256 * (step % 3)])
      pass.dispatchWorkgroupsIndirect(indirect, 0)
      pass.setPipeline(summing)
      pass.setBindGroup(0, sumGroup)
      pass.dispatchWorkgroups(words / 64)
      pass.end()
      if (step === 3) encoder.clearBuffer(total, 4, 4)
      queue.submit([encoder.finish()])
      if (step % 2 === 1) {
        await queue.onSubmittedWorkDone()
        await pause()
      }
      if (step === 2) parts.push(await read(device, total, pause))
    }
    parts.push(await read(device, ping, pause), await read(device, pong, pause), await read(device, total, pause))
    return join(...parts)
  },
}
