import { join, read, readTexture, TextureUsage, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const paint = /* wgsl */ `
@group(0) @binding(0) var picture: texture_2d_array<f32>;
@group(0) @binding(1) var canvas: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(2) var near: sampler;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3u) {
  let at = (vec2f(id.xy) + 0.5) / vec2f(textureDimensions(canvas));
  let a = textureSampleLevel(picture, near, at, 0, 0);
  let b = textureSampleLevel(picture, near, at.yx, 1, 1);
  textureStore(canvas, id.xy, vec4f(a.rgb * 0.5 + b.gbr * 0.5, 1));
}`

const size = 64

/** Layers and mip levels written, copied between textures and buffers, sampled, and stored to. */
export const textures: Workload = {
  name: 'texture copies',
  async run(device, pause) {
    const { queue } = device
    const picture = device.createTexture({
      size: [size, size, 2],
      mipLevelCount: 2,
      format: 'rgba8unorm',
      usage: TextureUsage.TEXTURE_BINDING | TextureUsage.COPY_DST | TextureUsage.COPY_SRC,
    })
    const canvas = device.createTexture({
      size: [size, size],
      format: 'rgba8unorm',
      usage: TextureUsage.STORAGE_BINDING | TextureUsage.COPY_SRC,
    })
    const pixels = Uint8Array.from({ length: size * size * 4 }, (_, i) => (i * 31) ^ (i >> 5))
    queue.writeTexture({ texture: picture }, pixels, { bytesPerRow: size * 4 }, [size, size])
    const half = new Uint8Array(16 + (size / 2) * (size / 2) * 4).fill(7).map((value, i) => value * (i >> 4))
    queue.writeTexture(
      { texture: picture, mipLevel: 1, origin: { x: 0, y: 0, z: 1 } },
      half,
      { offset: 16, bytesPerRow: (size / 2) * 4, rowsPerImage: size / 2 },
      { width: size / 2, height: size / 2 },
    )
    const source = device.createBuffer({ size: size * 256, usage: Usage.COPY_SRC | Usage.COPY_DST })
    queue.writeBuffer(
      source,
      0,
      pixels.map((value) => 255 - value),
    )
    const pipeline = device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code: paint }) },
    })
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: picture.createView({ dimension: '2d-array' }) },
        { binding: 1, resource: canvas.createView() },
        { binding: 2, resource: device.createSampler() },
      ],
    })
    const parts: Uint8Array[] = []
    for (let round = 0; round < 3; round += 1) {
      const encoder = device.createCommandEncoder()
      const size2 = [size / 2, size / 2] as const
      encoder.copyBufferToTexture(
        { buffer: source, bytesPerRow: 256, offset: 1024 * round },
        { texture: picture, origin: [0, round * 8, 0] },
        [size, 8],
      )
      encoder.copyTextureToTexture(
        { texture: picture, origin: [round, 0, 0] },
        { texture: picture, mipLevel: 1 },
        size2,
      )
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(size / 8, size / 8)
      pass.end()
      encoder.copyTextureToTexture({ texture: canvas }, { texture: picture, origin: [0, 0, 1] }, [size, size])
      encoder.copyTextureToBuffer({ texture: canvas }, { buffer: source, bytesPerRow: 256 }, [size, size / 2])
      queue.submit([encoder.finish()])
      await queue.onSubmittedWorkDone()
      await pause()
    }
    parts.push(await readTexture(device, picture, pause), await readTexture(device, picture, pause, { layer: 1 }))
    parts.push(await readTexture(device, picture, pause, { mipLevel: 1, layer: 1 }), await read(device, source, pause))
    return join(...parts)
  },
}
