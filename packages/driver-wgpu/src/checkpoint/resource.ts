import { BufferUsage, TextureUsage } from '../flags.ts'
import { copyableLayouts } from '../protect/nodes/texture-format.ts'

/** What a checkpoint can save. */
export type Saveable = GPUBuffer | GPUTexture

/** One declared piece of state, and how it lies in a copy of it. */
export interface Resource {
  readonly name: string
  /** A multiple of 4. */
  readonly byteLength: number
  /** Notes a copy of the content into `shadow`, from its beginning. */
  copyTo(encoder: GPUCommandEncoder, shadow: GPUBuffer): void
  /** Notes the way back. */
  copyFrom(encoder: GPUCommandEncoder, shadow: GPUBuffer): void
}

/** A `TypeError` says which usage is missing, or that copies cannot carry the content. */
export function describeResource(name: string, resource: Saveable): Resource {
  return 'mapState' in resource ? describeBuffer(name, resource) : describeTexture(name, resource)
}

function describeBuffer(name: string, buffer: GPUBuffer): Resource {
  const { size, usage } = buffer
  if ((usage & BufferUsage.CopySrc) === 0) throw new TypeError(`buffer ${name} lacks usage COPY_SRC`)
  if ((usage & BufferUsage.CopyDst) === 0) throw new TypeError(`buffer ${name} lacks usage COPY_DST`)
  if (size % 4 !== 0) throw new TypeError(`buffer ${name} has ${size} bytes, not a multiple of 4`)
  return {
    name,
    byteLength: size,
    copyTo: (encoder, shadow) => encoder.copyBufferToBuffer(buffer, 0, shadow, 0, size),
    copyFrom: (encoder, shadow) => encoder.copyBufferToBuffer(shadow, 0, buffer, 0, size),
  }
}

/** Rows of a copy between texture and buffer begin at multiples of this (specification, "bytesPerRow"). */
const rowAlignment = 256

/** One mip level of one aspect, at its place in the copy. */
interface Level {
  readonly place: GPUTexelCopyTextureInfo
  readonly layout: { readonly offset: number; readonly bytesPerRow: number; readonly rowsPerImage: number }
  readonly extent: readonly [width: number, height: number, depth: number]
}

function describeTexture(name: string, texture: GPUTexture): Resource {
  const { usage, format, sampleCount } = texture
  if ((usage & TextureUsage.CopySrc) === 0) throw new TypeError(`texture ${name} lacks usage COPY_SRC`)
  if ((usage & TextureUsage.CopyDst) === 0) throw new TypeError(`texture ${name} lacks usage COPY_DST`)
  if (sampleCount > 1) throw new TypeError(`texture ${name} is multisampled, which WebGPU cannot copy to a buffer`)
  const layouts = copyableLayouts(format)
  if (layouts.length === 0) throw new TypeError(`texture ${name} is ${format}, which WebGPU cannot copy both ways`)
  const levels: Level[] = []
  let offset = 0
  for (const { blockWidth, blockHeight, blockBytes, aspect } of layouts) {
    for (let mipLevel = 0; mipLevel < texture.mipLevelCount; mipLevel += 1) {
      const columns = Math.ceil(Math.max(1, texture.width >> mipLevel) / blockWidth)
      const rowsPerImage = Math.ceil(Math.max(1, texture.height >> mipLevel) / blockHeight)
      const layers = texture.depthOrArrayLayers
      const depth = texture.dimension === '3d' ? Math.max(1, layers >> mipLevel) : layers
      const bytesPerRow = Math.ceil((columns * blockBytes) / rowAlignment) * rowAlignment
      levels.push({
        place: { texture, mipLevel, aspect },
        layout: { offset, bytesPerRow, rowsPerImage },
        extent: [columns * blockWidth, rowsPerImage * blockHeight, depth],
      })
      offset += bytesPerRow * rowsPerImage * depth
    }
  }
  return {
    name,
    byteLength: offset,
    copyTo: (encoder, buffer) => {
      for (const { place, layout, extent } of levels) encoder.copyTextureToBuffer(place, { buffer, ...layout }, extent)
    },
    copyFrom: (encoder, buffer) => {
      for (const { place, layout, extent } of levels) encoder.copyBufferToTexture({ buffer, ...layout }, place, extent)
    },
  }
}
