import type { AbortOptions, OpenTarget, SavedState } from '@egpu/core'
import { checkpointBuffers } from '@egpu/driver-wgpu'
import type { FieldEngine } from './engine.ts'
import { stepShader } from './gray-scott.ts'

/** GPUBufferUsage of the WebGPU specification; Node has no global of that name. */
const usage = { copySrc: 0x4, copyDst: 0x8, storage: 0x80 } as const
const part = 'field'

/** The field in two storage buffers of a WebGPU device; between calls the newest state is in `current`. */
export function webGpuEngine(target: OpenTarget<GPUDevice>, size: number): FieldEngine {
  const device = target.handle
  const make = (label: string): GPUBuffer =>
    device.createBuffer({ label, size: size * size * 4, usage: usage.storage | usage.copySrc | usage.copyDst })
  const current = make('field')
  const next = make('next field')
  const checkpoint = checkpointBuffers(target, { [part]: current })
  const module = device.createShaderModule({ code: stepShader(size) })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'step' } })
  const bind = (from: GPUBuffer, to: GPUBuffer): GPUBindGroup =>
    device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [from, to].map((buffer, binding) => ({ binding, resource: { buffer } })),
    })
  const groups = [bind(current, next), bind(next, current)] as const
  const workgroups = Math.ceil(size / 16)

  return {
    load: (field, signal) => {
      const read = async function* (): AsyncGenerator<Uint8Array> {
        yield field
      }
      return checkpoint.restore({ progress: 0, parts: [{ name: part, byteLength: current.size }], read }, { signal })
    },
    advance: async (steps) => {
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      for (let step = 0; step < steps; step += 1) {
        pass.setBindGroup(0, groups[step % 2 === 0 ? 0 : 1])
        pass.dispatchWorkgroups(workgroups, workgroups)
      }
      pass.end()
      if (steps % 2 === 1) encoder.copyBufferToBuffer(next, 0, current, 0, current.size)
      device.queue.submit([encoder.finish()])
      // On a lost device this resolves as if all were well; reading such a state is what fails.
      await device.queue.onSubmittedWorkDone()
    },
    copy: async () => {
      const frozen = checkpoint.freeze(0)
      return { read: (options) => bytesOf(frozen, options), dispose: () => frozen[Symbol.asyncDispose]() }
    },
    read: async () => {
      await using frozen = checkpoint.freeze(0)
      return await bytesOf(frozen, {})
    },
  }
}

async function bytesOf(state: SavedState, options: AbortOptions): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  for await (const chunk of state.read(part, options)) chunks.push(chunk.slice())
  return new Uint8Array(Buffer.concat(chunks))
}
