/**
 * One aspect of a texture's content, and the way it gets out and in again. Copies do it for most (specification,
 * "Texture Format Capabilities"); where WebGPU has none, because the bits are not defined (`depth24plus`), may only be
 * read (`depth32float`) or belong to several samples, shaders read and write every value.
 */
export interface Plane {
  readonly aspect: GPUTextureAspect
  readonly by: 'copy' | 'shader'
  readonly blockWidth: number
  readonly blockHeight: number
  /** Bytes of one block, all its samples together, where it is kept. */
  readonly blockBytes: number
  /** What a shader reads it as. */
  readonly texel: Texel
  /** Copies of depth and stencil take whole images only (specification, "GPUTexelCopyTextureInfo"). */
  readonly isWhole: boolean
}

export type Texel = 'unorm8' | 'float' | 'uint' | 'sint' | 'depth' | 'stencil'

/** 32-bit words in which a shader keeps one sample. */
export const wordsPerSample: Readonly<Record<Texel, number>> = {
  unorm8: 1,
  float: 4,
  uint: 4,
  sint: 4,
  depth: 1,
  stencil: 1,
}

const texels: Readonly<Record<string, number>> = {
  r8: 1,
  r16: 2,
  rg8: 2,
  r32: 4,
  rg16: 4,
  rgba8: 4,
  bgra8: 4,
  rgb10a2: 4,
  rgb9e5: 4,
  rg11b10: 4,
  rg32: 8,
  rgba16: 8,
  rgba32: 16,
}

/** Block-compressed formats with 8 bytes per 4 × 4 block; the others have 16. */
const small = /^(bc1-|bc4-|etc2-rgb8(a1)?unorm|eac-r11)/

/** All of a texture's content. Empty for a format that nobody knows yet: then it cannot be kept. */
export function planesOf(format: string, sampleCount: number): readonly Plane[] {
  const depth = format.startsWith('depth') ? [depthPlane(format, sampleCount)] : []
  const stencil = format.endsWith('stencil8') ? [stencilPlane(format, sampleCount)] : []
  if (depth.length + stencil.length > 0) return [...depth, ...stencil]
  const bytes = texels[/^(rgb10a2|rgb9e5|rg11b10|rgba\d+|bgra8|rg\d+|r\d+)/.exec(format)?.[1] ?? '']
  if (sampleCount > 1) return bytes === undefined ? [] : [byShader('all', texelOf(format), sampleCount)]
  const astc = /^astc-(\d+)x(\d+)-/.exec(format)
  if (astc !== null) return [byCopy('all', 16, Number(astc[1]), Number(astc[2]))]
  if (/^(bc|etc2|eac)/.test(format)) return [byCopy('all', small.test(format) ? 8 : 16, 4, 4)]
  return bytes === undefined ? [] : [byCopy('all', bytes)]
}

/** How a format's texels lie in copies; empty when copies alone do not carry them both ways. */
export function copyableLayouts(format: string): readonly Plane[] {
  const planes = planesOf(format, 1)
  return planes.every(({ by }) => by === 'copy') ? planes : []
}

/** The format under which a shader sees the stored numbers instead of what they stand for. */
export function storedFormat(format: GPUTextureFormat): GPUTextureFormat {
  return format.replace(/-srgb$/, '') as GPUTextureFormat
}

function depthPlane(format: string, sampleCount: number): Plane {
  if (format === 'depth16unorm' && sampleCount === 1) return { ...byCopy('all', 2), isWhole: true }
  return byShader('depth-only', 'depth', sampleCount)
}

function stencilPlane(format: string, sampleCount: number): Plane {
  if (sampleCount > 1) return byShader('stencil-only', 'stencil', sampleCount)
  return { ...byCopy(format === 'stencil8' ? 'all' : 'stencil-only', 1), isWhole: true }
}

function byCopy(aspect: GPUTextureAspect, blockBytes: number, blockWidth: number = 1, blockHeight: number = 1): Plane {
  return { aspect, by: 'copy', blockWidth, blockHeight, blockBytes, texel: 'float', isWhole: false }
}

function byShader(aspect: GPUTextureAspect, texel: Texel, sampleCount: number): Plane {
  const blockBytes = 4 * wordsPerSample[texel] * sampleCount
  return { aspect, by: 'shader', blockWidth: 1, blockHeight: 1, blockBytes, texel, isWhole: false }
}

function texelOf(format: string): Texel {
  if (format.endsWith('uint')) return 'uint'
  if (format.endsWith('sint')) return 'sint'
  return /8unorm(-srgb)?$/.test(format) ? 'unorm8' : 'float'
}
