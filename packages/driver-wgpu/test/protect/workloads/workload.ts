/** Called at every await of a workload: the place to take the device away. */
export type Pause = () => Promise<void> | void

/**
 * An application that knows nothing of losses. It runs on any `GPUDevice`, and everything it reads back comes out as
 * one array of bytes.
 */
export interface Workload {
  readonly name: string
  run(device: GPUDevice, pause: Pause): Promise<Uint8Array>
}

/** Reads a whole buffer through a staging buffer of its own. */
export async function read(device: GPUDevice, source: GPUBuffer, pause: Pause): Promise<Uint8Array> {
  const staging = device.createBuffer({ size: source.size, usage: Usage.MAP_READ | Usage.COPY_DST })
  const encoder = device.createCommandEncoder()
  encoder.copyBufferToBuffer(source, 0, staging, 0, source.size)
  device.queue.submit([encoder.finish()])
  await pause()
  await staging.mapAsync(1)
  const bytes = new Uint8Array(staging.getMappedRange()).slice()
  staging.unmap()
  staging.destroy()
  return bytes
}

/** Reads a level of a texture whose texels have four bytes and whose rows need no padding. */
export async function readTexture(
  device: GPUDevice,
  texture: GPUTexture,
  pause: Pause,
  { mipLevel = 0, layer = 0 }: { mipLevel?: number; layer?: number } = {},
): Promise<Uint8Array> {
  const [width, height] = [texture.width >> mipLevel, texture.height >> mipLevel]
  const bytesPerRow = Math.ceil((width * 4) / 256) * 256
  const size = bytesPerRow * height
  const buffer = device.createBuffer({ size, usage: Usage.COPY_SRC | Usage.COPY_DST })
  const encoder = device.createCommandEncoder()
  encoder.copyTextureToBuffer({ texture, mipLevel, origin: [0, 0, layer] }, { buffer, bytesPerRow }, [width, height])
  device.queue.submit([encoder.finish()])
  return read(device, buffer, pause)
}

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts)
}

/** The flags as browsers have them in globals. */
export const Usage = {
  MAP_READ: 0x1,
  MAP_WRITE: 0x2,
  COPY_SRC: 0x4,
  COPY_DST: 0x8,
  INDEX: 0x10,
  VERTEX: 0x20,
  UNIFORM: 0x40,
  STORAGE: 0x80,
  INDIRECT: 0x100,
  QUERY_RESOLVE: 0x200,
} as const

export const TextureUsage = {
  COPY_SRC: 0x1,
  COPY_DST: 0x2,
  TEXTURE_BINDING: 0x4,
  STORAGE_BINDING: 0x8,
  RENDER_ATTACHMENT: 0x10,
} as const
