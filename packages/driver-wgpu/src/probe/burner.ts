import { BufferUsage } from '../flags.ts'

/** 4 lanes of a multiplication and an addition, four times in a row. */
const flopsPerRound = 32
const workgroupSize = 64
const workgroups = 1_024

const code = /* wgsl */ `
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

/** Arithmetic and nothing else to speak of. */
export interface Burner {
  /** Notes so many floating-point operations, about 2 million at least. */
  burn(encoder: GPUCommandEncoder, flops: number): void
  destroy(): void
}

/** Compiles the arithmetic off the main thread. `result` is a storage buffer of 1 MiB or more. */
export async function createBurner(device: GPUDevice, result: GPUBuffer): Promise<Burner> {
  const rounds = device.createBuffer({
    label: 'egpu probe',
    size: 4,
    usage: BufferUsage.CopyDst | BufferUsage.Uniform,
  })
  const compute = { module: device.createShaderModule({ code }), entryPoint: 'burn' }
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute })
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [
      { binding: 0, resource: { buffer: result } },
      { binding: 1, resource: { buffer: rounds } },
    ],
  })
  return {
    burn(encoder, flops) {
      const count = Math.max(1, Math.round(flops / (workgroups * workgroupSize * flopsPerRound)))
      device.queue.writeBuffer(rounds, 0, Uint32Array.of(count))
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(workgroups)
      pass.end()
    },
    destroy: () => rounds.destroy(),
  }
}
