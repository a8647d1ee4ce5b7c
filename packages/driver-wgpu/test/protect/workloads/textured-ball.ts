import { globals } from 'webgpu'
import { join, readTexture, TextureUsage, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const code = /* wgsl */ `
struct Uniforms { viewProjection: mat4x4f, world: mat4x4f, light: vec3f, shine: f32 }
@group(0) @binding(0) var<uniform> u: Uniforms;
@group(0) @binding(1) var smooth_: sampler;
@group(0) @binding(2) var picture: texture_2d<f32>;
struct Corner { @builtin(position) position: vec4f, @location(0) normal: vec3f, @location(1) at: vec2f }
@vertex fn vertex(@location(0) position: vec3f, @location(1) normal: vec3f, @location(2) at: vec2f) -> Corner {
  return Corner(u.viewProjection * u.world * vec4f(position, 1), (u.world * vec4f(normal, 0)).xyz, at);
}
@fragment fn fragment(corner: Corner) -> @location(0) vec4f {
  let lit = max(dot(normalize(corner.normal), u.light), 0.1) * u.shine;
  return vec4f(textureSample(picture, smooth_, corner.at * 3).rgb * lit, 1);
}`

const size = 64
const frames = 4

/**
 * A textured ball as applications draw it: geometry, uniforms, texture and mip levels by `webgpu-utils`, transforms by
 * `wgpu-matrix`. Each frame is drawn over the last with its depth, so that what is missing shows.
 */
export const texturedBall: Workload = {
  name: 'webgpu-utils and wgpu-matrix',
  async run(device, pause) {
    // Both expect a browser's globals.
    Object.assign(globalThis, globals)
    const utils = await import('webgpu-utils')
    const { mat4, vec3 } = await import('wgpu-matrix')
    const { queue } = device
    const ball = utils.createBuffersAndAttributesFromArrays(
      device,
      utils.primitives.createSphereVertices({ radius: 1, subdivisionsAxis: 24, subdivisionsHeight: 12 }),
    )
    const pixels = Uint8Array.from({ length: 16 * 16 * 4 }, (_, i) => (i % 4 === 3 ? 255 : (i * 37) ^ (i >> 4)))
    const picture = device.createTexture({
      size: [16, 16],
      mipLevelCount: utils.numMipLevels([16, 16]),
      format: 'rgba8unorm',
      usage:
        TextureUsage.TEXTURE_BINDING | TextureUsage.COPY_DST | TextureUsage.COPY_SRC | TextureUsage.RENDER_ATTACHMENT,
    })
    queue.writeTexture({ texture: picture }, pixels, { bytesPerRow: 64 }, [16, 16])
    utils.generateMipmap(device, picture)
    await pause()
    const uniforms = utils.makeStructuredView(utils.makeShaderDataDefinitions(code).uniforms['u'] as never)
    const buffer = device.createBuffer({
      size: uniforms.arrayBuffer.byteLength,
      usage: Usage.UNIFORM | Usage.COPY_DST,
    })
    const module = device.createShaderModule({ code })
    const pipeline = await device.createRenderPipelineAsync({
      layout: 'auto',
      vertex: { module, buffers: ball.bufferLayouts },
      fragment: { module, targets: [{ format: 'rgba8unorm' }] },
      primitive: { cullMode: 'back' },
      depthStencil: { format: 'depth24plus', depthWriteEnabled: true, depthCompare: 'less' },
      multisample: { count: 4 },
    })
    await pause()
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: { buffer } },
        { binding: 1, resource: device.createSampler({ minFilter: 'linear', mipmapFilter: 'linear' }) },
        { binding: 2, resource: picture.createView() },
      ],
    })
    const attachment = (format: GPUTextureFormat, sampleCount: number, usage: number): GPUTexture =>
      device.createTexture({ size: [size, size], format, sampleCount, usage })
    const screen = attachment('rgba8unorm', 1, TextureUsage.RENDER_ATTACHMENT | TextureUsage.COPY_SRC)
    const color = attachment('rgba8unorm', 4, TextureUsage.RENDER_ATTACHMENT)
    const depth = attachment('depth24plus', 4, TextureUsage.RENDER_ATTACHMENT)
    const camera = mat4.lookAt([0, 1, 5], [0, 0, 0], [0, 1, 0])
    const viewProjection = mat4.multiply(mat4.perspective(0.8, 1, 0.1, 20), camera)
    for (let frame = 0; frame < frames; frame += 1) {
      const world = mat4.rotateY(mat4.translation([frame * 0.5 - 0.8, 0, frame * -0.4]), frame)
      uniforms.set({ viewProjection, world, light: vec3.normalize([1, 2, 3]), shine: 1 - frame / 8 })
      queue.writeBuffer(buffer, 0, uniforms.arrayBuffer)
      const encoder = device.createCommandEncoder()
      const loadOp = frame === 0 ? 'clear' : 'load'
      const pass = encoder.beginRenderPass({
        colorAttachments: [{ view: color.createView(), resolveTarget: screen.createView(), loadOp, storeOp: 'store' }],
        depthStencilAttachment: {
          view: depth.createView(),
          depthLoadOp: loadOp,
          depthStoreOp: 'store',
          depthClearValue: 1,
        },
      })
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      for (const [slot, vertices] of ball.buffers.entries()) pass.setVertexBuffer(slot, vertices)
      pass.setIndexBuffer(ball.indexBuffer as GPUBuffer, ball.indexFormat as GPUIndexFormat)
      pass.drawIndexed(ball.numElements)
      pass.end()
      queue.submit([encoder.finish()])
      await queue.onSubmittedWorkDone()
      await pause()
    }
    return join(await readTexture(device, screen, pause), await readTexture(device, picture, pause))
  },
}
