/** How the texels of a format lie in memory. */
export interface BlockLayout {
  readonly blockWidth: number
  readonly blockHeight: number
  /** Bytes of one block in a copy of `aspect`. */
  readonly blockBytes: number
  readonly aspect: GPUTextureAspect
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

/**
 * Which aspects of a texture can be copied to a buffer and back again, and how they lie there (specification,
 * "Texture Format Capabilities"). Empty when the content cannot be brought back by copies: `depth24plus` has no defined
 * bits, and a `depth32float` aspect can be read but not written.
 */
export function copyableLayouts(format: string): readonly BlockLayout[] {
  const plain = (blockBytes: number, aspect: GPUTextureAspect = 'all'): readonly BlockLayout[] => [
    { blockWidth: 1, blockHeight: 1, blockBytes, aspect },
  ]
  if (format === 'stencil8') return plain(1)
  if (format === 'depth16unorm') return plain(2)
  if (format.startsWith('depth')) return []
  const astc = /^astc-(\d+)x(\d+)-/.exec(format)
  if (astc !== null) {
    return [{ blockWidth: Number(astc[1]), blockHeight: Number(astc[2]), blockBytes: 16, aspect: 'all' }]
  }
  if (/^(bc|etc2|eac)/.test(format)) {
    return [{ blockWidth: 4, blockHeight: 4, blockBytes: small.test(format) ? 8 : 16, aspect: 'all' }]
  }
  const channels = /^(rgb10a2|rgb9e5|rg11b10|rgba\d+|bgra8|rg\d+|r\d+)/.exec(format)?.[1]
  const bytes = channels === undefined ? undefined : texels[channels]
  return bytes === undefined ? [] : plain(bytes)
}
