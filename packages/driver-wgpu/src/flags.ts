/**
 * Flag values of the WebGPU specification (sections "GPUBufferUsage", "GPUTextureUsage", "GPUMapMode"). Browsers have
 * them as globals, the package `webgpu` does not put them there.
 */
export const BufferUsage = {
  MapRead: 0x1,
  MapWrite: 0x2,
  CopySrc: 0x4,
  CopyDst: 0x8,
  Uniform: 0x40,
  Storage: 0x80,
  QueryResolve: 0x200,
} as const

/** Everything an error scope can catch. */
export const errorFilters = ['validation', 'out-of-memory', 'internal'] as const

export const MapMode = { Read: 0x1, Write: 0x2 } as const

export const TextureUsage = {
  CopySrc: 0x1,
  CopyDst: 0x2,
  TextureBinding: 0x4,
  StorageBinding: 0x8,
  RenderAttachment: 0x10,
  /** Every usage of a texture whose content outlives a pass; the one beyond, for transient attachments, stands alone. */
  Lasting: 0x1f,
} as const
