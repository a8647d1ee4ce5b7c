import { join, read, readTexture, TextureUsage, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const shader = /* wgsl */ `
struct Turn { angle: f32, depth: f32, tint: vec2f }
@group(0) @binding(0) var<uniform> turn: Turn;
struct Vertex { @builtin(position) position: vec4f, @location(0) color: vec4f }
@vertex fn vertex(@location(0) at: vec2f, @location(1) color: vec3f) -> Vertex {
  let s = sin(turn.angle); let c = cos(turn.angle);
  return Vertex(vec4f(at.x * c - at.y * s, at.x * s + at.y * c, turn.depth, 1), vec4f(color, 1));
}
@fragment fn fragment(in: Vertex) -> @location(0) vec4f { return vec4f(in.color.rg + turn.tint, in.color.b, 1); }`

const size = 64
const frames = 4

/** Frames over frames on one target: loaded, not cleared, so that a lost frame shows; depth, index, bundle, query. */
export const render: Workload = {
  name: 'render to texture',
  async run(device, pause) {
    const { queue } = device
    const color = device.createTexture({
      size: [size, size],
      format: 'rgba8unorm',
      usage: TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC,
    })
    const depth = device.createTexture({
      size: [size, size],
      format: 'depth24plus',
      usage: TextureUsage.RENDER_ATTACHMENT,
    })
    const vertices = device.createBuffer({ size: 4 * 20, usage: Usage.VERTEX | Usage.COPY_DST })
    queue.writeBuffer(
      vertices,
      0,
      new Float32Array([-0.9, -0.9, 1, 0, 0, 0.9, -0.9, 0, 1, 0, 0.9, 0.9, 0, 0, 1, -0.9, 0.9, 1, 1, 0]),
    )
    const indices = device.createBuffer({ size: 12, usage: Usage.INDEX, mappedAtCreation: true })
    new Uint16Array(indices.getMappedRange()).set([0, 1, 2, 0, 2, 3])
    indices.unmap()
    const turn = device.createBuffer({ size: 16, usage: Usage.UNIFORM | Usage.COPY_DST })
    const module = device.createShaderModule({ code: shader })
    await module.getCompilationInfo()
    await pause()
    const pipeline = await device.createRenderPipelineAsync({
      layout: 'auto',
      vertex: {
        module,
        buffers: [
          {
            arrayStride: 20,
            attributes: [
              { shaderLocation: 0, offset: 0, format: 'float32x2' },
              { shaderLocation: 1, offset: 8, format: 'float32x3' },
            ],
          },
        ],
      },
      fragment: {
        module,
        targets: [
          {
            format: 'rgba8unorm',
            blend: {
              color: { srcFactor: 'constant', dstFactor: 'one-minus-constant', operation: 'add' },
              alpha: { srcFactor: 'one', dstFactor: 'zero' },
            },
          },
        ],
      },
      depthStencil: { format: 'depth24plus', depthWriteEnabled: true, depthCompare: 'less' },
    })
    await pause()
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [{ binding: 0, resource: { buffer: turn } }],
    })
    const bundling = device.createRenderBundleEncoder({
      colorFormats: ['rgba8unorm'],
      depthStencilFormat: 'depth24plus',
    })
    bundling.setPipeline(pipeline)
    bundling.setBindGroup(0, group)
    bundling.setVertexBuffer(0, vertices)
    bundling.setIndexBuffer(indices, 'uint16')
    bundling.drawIndexed(6)
    const bundle = bundling.finish()
    const queries = device.createQuerySet({ type: 'occlusion', count: 1 })
    const answer = device.createBuffer({ size: 8, usage: Usage.QUERY_RESOLVE | Usage.COPY_SRC })
    const parts: Uint8Array[] = []
    for (let frame = 0; frame < frames; frame += 1) {
      queue.writeBuffer(turn, 0, new Float32Array([frame * 0.7, 0.5, frame * 0.1, 0.05]))
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginRenderPass({
        colorAttachments: [{ view: color.createView(), loadOp: frame === 0 ? 'clear' : 'load', storeOp: 'store' }],
        depthStencilAttachment: {
          view: depth.createView(),
          depthLoadOp: 'clear',
          depthStoreOp: 'store',
          depthClearValue: 1,
        },
        occlusionQuerySet: queries,
      })
      pass.setBlendConstant([0.6, 0.6, 0.6, 1])
      pass.beginOcclusionQuery(0)
      pass.executeBundles([bundle])
      pass.endOcclusionQuery()
      pass.setScissorRect(0, 0, size / 2, size / 2)
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.setVertexBuffer(0, vertices)
      pass.draw(3)
      pass.end()
      encoder.resolveQuerySet(queries, 0, 1, answer, 0)
      queue.submit([encoder.finish()])
      if (frame === 1) parts.push(await readTexture(device, color, pause), await read(device, answer, pause))
    }
    parts.push(await readTexture(device, color, pause))
    return join(...parts)
  },
}
