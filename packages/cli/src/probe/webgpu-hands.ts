import type { AbortOptions, OpenTarget } from '@egpu/core'
import { abandonable } from '@egpu/core'
import type { ProbeHands } from '@egpu/migrator'

/** GPUBufferUsage and GPUMapMode of the WebGPU specification; Node has no globals of these names. */
const usage = { mapRead: 0x1, copySrc: 0x4, copyDst: 0x8, storage: 0x80, uniform: 0x40 } as const
const mapRead = 0x1

/** Largest probe of `probeTarget`; memory streams are made of copies of this size. */
const bufferBytes = 8 * 2 ** 20

/** 4 lanes of a multiplication and an addition, four times in a row. */
const flopsPerRound = 32
const workgroupSize = 64
const workgroups = 1_024

const shader = /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> result: array<vec4f>;
@group(0) @binding(1) var<uniform> rounds: u32;

@compute @workgroup_size(${workgroupSize})
fn burn(@builtin(global_invocation_id) id: vec3u) {
  var a = vec4f(f32(id.x), 1.0, 2.0, 3.0);
  let b = vec4f(0.999, 0.998, 0.997, 0.996);
  for (var round = 0u; round < rounds; round++) {
    a = fma(a, b, b);
    a = fma(a, b, b);
    a = fma(a, b, b);
    a = fma(a, b, b);
  }
  // Never true, but the compiler cannot know: without a use the loop would be removed.
  if (a.x == 12345.678) { result[id.x] = a; }
}`

/** Measures a WebGPU device with buffers of a few megabytes. */
export function webGpuHands({ handle: device }: OpenTarget<GPUDevice>): ProbeHands {
  const { queue } = device
  const make = (size: number, flags: number): GPUBuffer => device.createBuffer({ size, usage: flags })
  const data = make(bufferBytes, usage.copyDst | usage.copySrc | usage.storage)
  const copy = make(bufferBytes, usage.copyDst | usage.copySrc)
  const staging = make(bufferBytes, usage.copyDst | usage.mapRead)
  const rounds = make(4, usage.copyDst | usage.uniform)
  const module = device.createShaderModule({ code: shader })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'burn' } })
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [
      { binding: 0, resource: { buffer: data } },
      { binding: 1, resource: { buffer: rounds } },
    ],
  })
  const done = ({ signal }: AbortOptions): Promise<undefined> => abandonable(queue.onSubmittedWorkDone(), signal)
  const submit = (record: (encoder: GPUCommandEncoder) => void): void => {
    const encoder = device.createCommandEncoder()
    record(encoder)
    queue.submit([encoder.finish()])
  }

  return {
    async write(bytes, options = {}) {
      queue.writeBuffer(data, 0, bytes as Uint8Array<ArrayBuffer>)
      await done(options)
    },
    async read(byteLength, { signal } = {}) {
      const size = Math.min(bufferBytes, Math.ceil(byteLength / 4) * 4)
      submit((encoder) => encoder.copyBufferToBuffer(data, 0, staging, 0, size))
      await abandonable(staging.mapAsync(mapRead, 0, size), signal)
      const bytes = new Uint8Array(staging.getMappedRange(0, size)).slice(0, byteLength)
      staging.unmap()
      return bytes
    },
    async compute(flops, options = {}) {
      const count = Math.max(1, Math.round(flops / (workgroups * workgroupSize * flopsPerRound)))
      queue.writeBuffer(rounds, 0, Uint32Array.of(count))
      submit((encoder) => {
        const pass = encoder.beginComputePass()
        pass.setPipeline(pipeline)
        pass.setBindGroup(0, group)
        pass.dispatchWorkgroups(workgroups)
        pass.end()
      })
      await done(options)
    },
    async stream(byteLength, options = {}) {
      // Each copied byte is read once and written once.
      const copies = Math.max(1, Math.round(byteLength / 2 / bufferBytes))
      submit((encoder) => {
        for (let index = 0; index < copies; index += 1) encoder.copyBufferToBuffer(data, 0, copy, 0, bufferBytes)
      })
      await done(options)
    },
    [Symbol.asyncDispose]: async () => {
      for (const buffer of [data, copy, staging, rounds]) buffer.destroy()
    },
  }
}
