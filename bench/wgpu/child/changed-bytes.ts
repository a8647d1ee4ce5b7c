import { checkpointBuffers, protectDevice, protectionOf } from '@egpu/driver-wgpu'
import type { OpenTarget } from '@egpu/core'
import type { Figure } from '../../figure.ts'
import { bytes, mebibyte, naiveReader } from './state.ts'

/** Adds 1 to every word of some regions of a buffer; to the shader it may all be written. Returns the bytes changed. */
function changer(device: GPUDevice, state: GPUBuffer): { readonly starts: Uint32Array; readonly change: () => number } {
  const regionBytes = 64 * 1024
  const places = device.createBuffer({ size: bytes / 4096, usage: 0x88 })
  const code = `@group(0) @binding(0) var<storage, read_write> state: array<u32>;
    @group(0) @binding(1) var<storage, read> places: array<u32>;
    @compute @workgroup_size(256) fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) at: u32) {
      for (var word = at; word < ${regionBytes / 4}u; word += 256u) { state[places[group.x] + word] += 1u; }
    }`
  const module = device.createShaderModule({ code })
  const pipeline = device.createComputePipeline({ layout: 'auto', compute: { module } })
  const entries = [state, places].map((buffer, binding) => ({ binding, resource: { buffer } }))
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
  // Anywhere, but none over another: their sum is what changed.
  const count = Math.max(1, Math.floor(bytes / 100 / regionBytes))
  const stride = Math.floor(bytes / count / 4)
  const starts = Uint32Array.from({ length: count }, (_one, at) => {
    return at * stride + Math.floor(Math.random() * (stride - regionBytes / 4))
  })
  device.queue.writeBuffer(places, 0, starts)
  const change = (): number => {
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(pipeline)
    pass.setBindGroup(0, group)
    pass.dispatchWorkgroups(count)
    pass.end()
    device.queue.submit([encoder.finish()])
    return count * regionBytes
  }
  return { starts, change }
}

/** A shader that writes a whole buffer where it may, and changes a hundredth of it. */
export async function incrementalFigure(target: OpenTarget<GPUDevice>): Promise<Figure> {
  const state = target.handle.createBuffer({ size: bytes, usage: 0x8c })
  const { change } = changer(target.handle, state)
  using checkpoint = checkpointBuffers(target, { state })
  await using _ = await checkpoint.freezeChanges(0)
  const changed = change()
  let moved = 0
  const begun = performance.now()
  await using frozen = await checkpoint.freezeChanges(1)
  for (const range of frozen.changed ?? []) {
    for await (const piece of frozen.readRange(range)) moved += piece.byteLength
  }
  return movedFigure('bytes moved', moved, changed, performance.now() - begun)
}

/** The same with a protected device, which is then moved to another: there its content is read and compared. */
export async function protectedFigure(): Promise<readonly Figure[]> {
  let [moved, ms] = [0, 0]
  const device = await protectDevice({
    descriptor: { requiredLimits: { maxBufferSize: bytes, maxStorageBufferBindingSize: bytes } },
    checkpoint: { intervalMs: Infinity, maxLogBytes: Infinity, chunkBytes: 8 * mebibyte, slots: 8 },
    onEvent: (event) => {
      if (event.type === 'checkpointed') [moved, ms] = [event.bytes, event.pauseMs + event.drainMs]
    },
  })
  const state = device.createBuffer({ size: bytes, usage: 0x8c })
  const { starts, change } = changer(device, state)
  await protectionOf(device).checkpoint()
  change()
  await protectionOf(device).checkpoint()
  const changed = change()
  await protectionOf(device).checkpoint()
  const figure = movedFigure('bytes moved by a checkpoint of a protected device', moved, changed, ms)
  await protectionOf(device).move()
  const host = new Uint8Array(bytes)
  await naiveReader(device, state, host)()
  const expected = new Uint32Array(bytes / 4)
  for (const start of starts) expected.fill(2, start, start + changed / starts.length / 4)
  const isExact = Buffer.compare(host, new Uint8Array(expected.buffer)) === 0
  device.destroy()
  await device.lost
  const exact = { figure: 'protected content after checkpoints and a move', value: isExact ? 1 : 0, unit: 'bit-exact' }
  return [figure, { ...exact, bar: '1', pass: isExact }]
}

function movedFigure(what: string, drained: number, changed: number, ms: number): Figure {
  // One bit for each 4 KiB tells what changed.
  const moved = drained + bytes / 4096 / 8
  return {
    figure: `${what} after a shader changed a hundredth of a buffer, here and there`,
    value: moved,
    unit: 'bytes',
    against: `${changed} bytes changed of ${bytes}, in ${ms.toFixed(1)} ms`,
    ratio: moved / changed,
    bar: '<= 1.1 x the changed bytes',
    pass: moved <= 1.1 * changed,
  }
}
