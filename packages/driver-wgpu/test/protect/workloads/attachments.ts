import { join, read, readTexture, TextureUsage, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const draw = /* wgsl */ `
@group(0) @binding(0) var<uniform> turn: vec4f;
@vertex fn vertex(@builtin(vertex_index) corner: u32) -> @builtin(position) vec4f {
  let angle = turn.x + f32(corner) * 2.1;
  return vec4f(cos(angle) * turn.y, sin(angle) * turn.y, turn.z + f32(corner) * 0.07, 1);
}
@fragment fn fragment(@builtin(position) at: vec4f) -> @location(0) vec4f {
  return vec4f(turn.w, fract(at.x * 0.013 + turn.x), fract(at.y * 0.029 + at.z), 1);
}`

const measure = /* wgsl */ `
@group(0) @binding(0) var layers: texture_depth_2d_array;
@group(0) @binding(1) var samples: texture_depth_multisampled_2d;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3u) {
  let at = (id.y * 32u + id.x) * 6u;
  for (var n = 0u; n < 2u; n += 1u) { out[at + n] = bitcast<u32>(textureLoad(layers, id.xy, n, 0)); }
  for (var n = 0u; n < 4u; n += 1u) { out[at + 2u + n] = bitcast<u32>(textureLoad(samples, id.xy, n)); }
}`

const size = 32
const frames = 5

type Attachment = Pick<GPURenderPassDescriptor, 'colorAttachments' | 'depthStencilAttachment'>

/**
 * Frame upon frame, never cleared, on attachments that WebGPU has no copies for: samples, 24-bit and float depth with
 * and without stencil, several layers. Nobody declares more usages than drawing needs.
 */
export const attachments: Workload = {
  name: 'attachments without copies',
  async run(device, pause) {
    const { queue } = device
    const make = (format: GPUTextureFormat, sampleCount: number, more: Partial<GPUTextureDescriptor> = {}) =>
      device.createTexture({
        label: `${format} ${sampleCount}`,
        size: [size, size],
        format,
        sampleCount,
        usage: TextureUsage.RENDER_ATTACHMENT,
        ...more,
      })
    const resolved = make('rgba8unorm-srgb', 1, { usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC })
    const color = make('rgba8unorm-srgb', 4)
    const samples = make('depth24plus-stencil8', 4, {
      usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.TEXTURE_BINDING,
    })
    const half = make('rgba16float', 4)
    const halfResolved = make('rgba16float', 1, { usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC })
    const plain = make('rgba8unorm', 1, { usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC })
    const stencil = make('depth24plus-stencil8', 1)
    const layers = make('depth32float', 1, {
      size: [size, size, 2],
      usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.TEXTURE_BINDING,
    })
    const depths = device.createBuffer({ size: size * size * 24, usage: Usage.STORAGE | Usage.COPY_SRC })
    const module = device.createShaderModule({ code: draw })
    const face = { compare: 'greater', passOp: 'increment-wrap', depthFailOp: 'invert', failOp: 'keep' } as const
    const pipelineOf = (targets: GPUTextureFormat[], depth: GPUTextureFormat, count: number): GPURenderPipeline =>
      device.createRenderPipeline({
        layout: 'auto',
        vertex: { module },
        ...(targets.length > 0 ? { fragment: { module, targets: targets.map((format) => ({ format })) } } : {}),
        multisample: { count },
        depthStencil: {
          format: depth,
          depthWriteEnabled: true,
          depthCompare: 'greater',
          ...(depth.endsWith('stencil8') ? { stencilFront: face, stencilBack: face } : {}),
        },
      })
    const loaded = (texture: GPUTexture, baseArrayLayer = 0): GPURenderPassDepthStencilAttachment => ({
      view: texture.createView({ dimension: '2d', baseArrayLayer, arrayLayerCount: 1 }),
      depthLoadOp: 'load',
      depthStoreOp: 'store',
      ...(texture.format.endsWith('stencil8') ? { stencilLoadOp: 'load', stencilStoreOp: 'store' } : {}),
    })
    const onto = (texture: GPUTexture, resolveTarget?: GPUTexture): GPURenderPassColorAttachment => ({
      view: texture.createView(),
      ...(resolveTarget === undefined ? {} : { resolveTarget: resolveTarget.createView() }),
      loadOp: 'load',
      storeOp: 'store',
    })
    const sampled = pipelineOf(['rgba8unorm-srgb'], 'depth24plus-stencil8', 4)
    const halves = pipelineOf(['rgba16float'], 'depth24plus-stencil8', 4)
    const single = pipelineOf(['rgba8unorm'], 'depth24plus-stencil8', 1)
    const shadow = pipelineOf([], 'depth32float', 1)
    const measuring = device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: measure }) },
    })
    const measured = device.createBindGroup({
      layout: measuring.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: layers.createView() },
        { binding: 1, resource: samples.createView({ aspect: 'depth-only' }) },
        { binding: 2, resource: { buffer: depths } },
      ],
    })
    for (let frame = 0; frame < frames; frame += 1) {
      const encoder = device.createCommandEncoder()
      const drawOn = (pipeline: GPURenderPipeline, attached: Attachment, nth: number): void => {
        const turn = device.createBuffer({ size: 16, usage: Usage.UNIFORM | Usage.COPY_DST })
        queue.writeBuffer(turn, 0, new Float32Array([frame * 0.9 + nth, 1.1 - nth * 0.1, frame * 0.11, frame / 7]))
        const pass = encoder.beginRenderPass(attached)
        pass.setPipeline(pipeline)
        pass.setBindGroup(
          0,
          device.createBindGroup({
            layout: pipeline.getBindGroupLayout(0),
            entries: [{ binding: 0, resource: { buffer: turn } }],
          }),
        )
        pass.setStencilReference(2 + (nth % 2))
        pass.draw(3)
        pass.end()
      }
      const deep = loaded(samples)
      drawOn(sampled, { colorAttachments: [onto(color, resolved)], depthStencilAttachment: deep }, 0)
      drawOn(halves, { colorAttachments: [onto(half, halfResolved)], depthStencilAttachment: deep }, 1)
      drawOn(single, { colorAttachments: [onto(plain)], depthStencilAttachment: loaded(stencil) }, 2)
      drawOn(shadow, { colorAttachments: [], depthStencilAttachment: loaded(layers, frame % 2) }, 3)
      queue.submit([encoder.finish()])
      await queue.onSubmittedWorkDone()
      await pause()
    }
    const encoder = device.createCommandEncoder()
    const pass = encoder.beginComputePass()
    pass.setPipeline(measuring)
    pass.setBindGroup(0, measured)
    pass.dispatchWorkgroups(size / 8, size / 8)
    pass.end()
    const wide = device.createBuffer({ size: size * 256, usage: Usage.COPY_SRC | Usage.COPY_DST })
    encoder.copyTextureToBuffer({ texture: halfResolved }, { buffer: wide, bytesPerRow: 256 }, [size, size])
    queue.submit([encoder.finish()])
    return join(
      await readTexture(device, resolved, pause),
      await readTexture(device, plain, pause),
      await read(device, wide, pause),
      await read(device, depths, pause),
    )
  },
}
