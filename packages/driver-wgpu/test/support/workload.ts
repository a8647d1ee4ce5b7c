/** A small computation whose every step depends on the one before, so that a lost or repeated step shows. */
export interface Steps {
  readonly state: GPUBuffer
  step(): void
}

const shader = /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> state: array<u32>;
@compute @workgroup_size(64) fn step(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  state[i] = (state[i] * 1664525u + 1013904223u) ^ (i * 2654435761u);
}`

export const wordCount = 4096

export function startSteps(device: GPUDevice): Steps {
  const state = device.createBuffer({ size: wordCount * 4, usage: 0x80 | 0x4 | 0x8 })
  const module = device.createShaderModule({ code: shader })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } })
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer: state } }],
  })
  return {
    state,
    step() {
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(wordCount / 64)
      pass.end()
      device.queue.submit([encoder.finish()])
    },
  }
}

/** The same on the CPU: what `steps` steps must have given. */
export function expectedState(steps: number): Uint32Array {
  return Uint32Array.from({ length: wordCount }, (_, i) => {
    let value = 0
    for (let step = 0; step < steps; step += 1) {
      value = ((Math.imul(value, 1664525) + 1013904223) ^ Math.imul(i, 2654435761)) >>> 0
    }
    return value
  })
}

/** Reads a buffer the way an application would. */
export async function readBack(device: GPUDevice, source: GPUBuffer): Promise<Uint32Array> {
  const staging = device.createBuffer({ size: source.size, usage: 0x1 | 0x8 })
  const encoder = device.createCommandEncoder()
  encoder.copyBufferToBuffer(source, 0, staging, 0, source.size)
  device.queue.submit([encoder.finish()])
  await staging.mapAsync(0x1)
  const words = new Uint32Array(staging.getMappedRange()).slice()
  staging.destroy()
  return words
}
