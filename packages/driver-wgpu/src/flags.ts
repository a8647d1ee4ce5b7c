/**
 * Flag values of the WebGPU specification (sections "GPUBufferUsage", "GPUTextureUsage", "GPUMapMode"). Browsers have
 * them as globals, the package `webgpu` does not put them there.
 */
export const BufferUsage = {
  MapRead: 0x1,
  MapWrite: 0x2,
  CopySrc: 0x4,
  CopyDst: 0x8,
} as const

export const MapMode = { Read: 0x1, Write: 0x2 } as const
