import { join, read, readTexture, TextureUsage, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const flying = /* wgsl */ `
struct Bird { at: vec2f, speed: vec2f }
struct Rules { reach: f32, apart: f32, together: f32, alike: f32, step: f32 }
@group(0) @binding(0) var<uniform> rules: Rules;
@group(0) @binding(1) var<storage, read> before: array<Bird>;
@group(0) @binding(2) var<storage, read_write> after: array<Bird>;
@compute @workgroup_size(64) fn fly(@builtin(global_invocation_id) id: vec3u) {
  var bird = before[id.x];
  var middle = vec2f(); var heading = vec2f(); var away = vec2f(); var near = 0.0;
  for (var n = 0u; n < arrayLength(&before); n += 1u) {
    if (n == id.x) { continue; }
    let other = before[n];
    let distance = distance(other.at, bird.at);
    if (distance > rules.reach) { continue; }
    near += 1; middle += other.at; heading += other.speed;
    if (distance < rules.reach / 4) { away -= other.at - bird.at; }
  }
  if (near > 0) {
    bird.speed += (middle / near - bird.at) * rules.together + (heading / near) * rules.alike + away * rules.apart;
  }
  bird.speed = normalize(bird.speed) * clamp(length(bird.speed), 0.02, 0.1);
  bird.at = fract((bird.at + bird.speed * rules.step) * 0.5 + 0.5) * 2 - 1;
  after[id.x] = bird;
}`

const drawing = /* wgsl */ `
@vertex fn vertex(@location(0) at: vec2f, @location(1) speed: vec2f, @location(2) corner: vec2f) -> @builtin(position) vec4f {
  let ahead = normalize(speed);
  return vec4f(at + vec2f(corner.x * ahead.x - corner.y * ahead.y, corner.x * ahead.y + corner.y * ahead.x), 0, 1);
}
@fragment fn fragment() -> @location(0) vec4f { return vec4f(0.9, 0.7, 0.2, 1); }`

const birds = 256
const size = 64
const frames = 8

/** A flock in the manner of the WebGPU samples: two buffers take turns, computed in one pass and drawn in the next. */
export const flock: Workload = {
  name: 'a flock of birds',
  async run(device, pause) {
    const { queue } = device
    const start = Float32Array.from({ length: birds * 4 }, (_, n) => Math.sin(n * 12.9898) * (n % 4 < 2 ? 1 : 0.05))
    const flocks = [0, 1].map(() => {
      const usage = Usage.VERTEX | Usage.STORAGE | Usage.COPY_SRC
      const buffer = device.createBuffer({ size: start.byteLength, usage, mappedAtCreation: true })
      new Float32Array(buffer.getMappedRange()).set(start)
      buffer.unmap()
      return buffer
    }) as [GPUBuffer, GPUBuffer]
    const rules = device.createBuffer({ size: 20, usage: Usage.UNIFORM | Usage.COPY_DST })
    queue.writeBuffer(rules, 0, new Float32Array([0.3, 0.05, 0.02, 0.005, 0.8]))
    const corners = device.createBuffer({ size: 24, usage: Usage.VERTEX | Usage.COPY_DST })
    queue.writeBuffer(corners, 0, new Float32Array([0.06, 0, -0.03, 0.02, -0.03, -0.02]))
    const fly = await device.createComputePipelineAsync({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: flying }) },
    })
    const module = device.createShaderModule({ code: drawing })
    const draw = await device.createRenderPipelineAsync({
      layout: 'auto',
      vertex: {
        module,
        buffers: [
          {
            arrayStride: 16,
            stepMode: 'instance',
            attributes: [
              { shaderLocation: 0, offset: 0, format: 'float32x2' },
              { shaderLocation: 1, offset: 8, format: 'float32x2' },
            ],
          },
          { arrayStride: 8, attributes: [{ shaderLocation: 2, offset: 0, format: 'float32x2' }] },
        ],
      },
      fragment: { module, targets: [{ format: 'rgba8unorm' }] },
    })
    const groups = [flocks, [...flocks].reverse()].map(([from, to]) =>
      device.createBindGroup({
        layout: fly.getBindGroupLayout(0),
        entries: [rules, from as GPUBuffer, to as GPUBuffer].map((buffer, binding) => ({
          binding,
          resource: { buffer },
        })),
      }),
    )
    const screen = device.createTexture({
      size: [size, size],
      format: 'rgba8unorm',
      usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC,
    })
    const parts: Uint8Array[] = []
    for (let frame = 0; frame < frames; frame += 1) {
      const encoder = device.createCommandEncoder()
      const computing = encoder.beginComputePass()
      computing.setPipeline(fly)
      computing.setBindGroup(0, groups[frame % 2])
      computing.dispatchWorkgroups(birds / 64)
      computing.end()
      const pass = encoder.beginRenderPass({
        colorAttachments: [{ view: screen.createView(), loadOp: 'clear', storeOp: 'store' }],
      })
      pass.setPipeline(draw)
      pass.setVertexBuffer(0, flocks[(frame + 1) % 2])
      pass.setVertexBuffer(1, corners)
      pass.draw(3, birds)
      pass.end()
      queue.submit([encoder.finish()])
      if (frame % 3 === 2) parts.push(await readTexture(device, screen, pause))
      else {
        await queue.onSubmittedWorkDone()
        await pause()
      }
    }
    return join(...parts, await read(device, flocks[0], pause), await read(device, flocks[1], pause))
  },
}
