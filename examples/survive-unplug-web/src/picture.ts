import { protectDevice, protectionOf } from '@egpu/driver-wgpu'

const particles = 1024
const code = /* wgsl */ `
struct State { steps: u32, at: array<vec2f> }
@group(0) @binding(0) var<storage, read_write> state: State;
@compute @workgroup_size(64) fn advance(@builtin(global_invocation_id) id: vec3u) {
  let d = state.at[id.x] - 0.5;
  state.at[id.x] = fract(d + 0.5 + vec2f(-d.y, d.x) * 0.03 + d * 0.006 * sin(f32(id.x)));
  if (id.x == 0u) { state.steps += 1u; }
}
@group(0) @binding(0) var<storage, read> now: State;
struct Dot { @builtin(position) position: vec4f, @location(0) color: vec3f }
@vertex fn corner_of(@builtin(vertex_index) corner: u32, @builtin(instance_index) n: u32) -> Dot {
  let edge = vec2f(f32(corner & 1u), f32(corner >> 1u)) * 0.012;
  return Dot(vec4f(now.at[n] * 2 - 1 + edge, 0, 1), vec3f(now.at[n], 1));
}
@fragment fn paint(dot: Dot) -> @location(0) vec4f { return vec4f(dot.color, 1); }`

const device = await protectDevice({ onEvent: (event) => console.log(event.type) })
const format = navigator.gpu.getPreferredCanvasFormat()
const context = document.querySelector('canvas')?.getContext('webgpu') as GPUCanvasContext
context.configure({ device, format })
const module = device.createShaderModule({ code })
const move = device.createComputePipeline({ layout: 'auto', compute: { module } })
const fragment = { module, targets: [{ format }] }
const primitive = { topology: 'triangle-strip' } as const
const draw = device.createRenderPipeline({ layout: 'auto', vertex: { module }, fragment, primitive })
const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage
const state = device.createBuffer({ size: 8 + 8 * particles, usage: STORAGE | COPY_SRC | COPY_DST })
const counted = device.createBuffer({ size: 4, usage: MAP_READ | COPY_DST })
const start = Float32Array.from({ length: 2 * particles }, (_, n) => (n * (n % 2 === 0 ? 0.618 : 0.383)) % 1)
device.queue.writeBuffer(state, 8, start)
const [moved, drawn] = [move, draw].map((pipeline) =>
  device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: state }] }),
)

const last = Number(new URLSearchParams(location.search).get('steps') ?? Infinity)
for (let step = 0; ; step = Math.min(step + 1, last)) {
  const encoder = device.createCommandEncoder()
  const moving = encoder.beginComputePass()
  moving.setPipeline(move)
  moving.setBindGroup(0, moved)
  if (step < last) moving.dispatchWorkgroups(particles / 64)
  moving.end()
  const view = context.getCurrentTexture().createView()
  const drawing = encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: 'clear', storeOp: 'store' }] })
  drawing.setPipeline(draw)
  drawing.setBindGroup(0, drawn)
  drawing.draw(4, particles)
  drawing.end()
  encoder.copyBufferToBuffer(state, 0, counted, 0, 4)
  device.queue.submit([encoder.finish()])
  await counted.mapAsync(GPUMapMode.READ)
  const [done] = new Uint32Array(counted.getMappedRange())
  document.title = `${done} of ${Math.min(step + 1, last)} steps, ${protectionOf(device).stats.recoveries} GPUs lost`
  counted.unmap()
  await new Promise(requestAnimationFrame)
}
