export const mebibyte: number = 2 ** 20

/** How much state the figures of a GPU are about. */
export const bytes: number = Number(process.env['EGPU_BENCH_MIB'] ?? 1024) * mebibyte

/** What an application would write first: one staging buffer, made once, mapped and copied piece by piece. */
export function naiveReader(device: GPUDevice, source: GPUBuffer, host: Uint8Array): () => Promise<void> {
  const size = Math.min(64 * mebibyte, bytes)
  const staging = device.createBuffer({ size, usage: 0x9 })
  return async () => {
    for (let offset = 0; offset < bytes; offset += size) {
      const encoder = device.createCommandEncoder()
      encoder.copyBufferToBuffer(source, offset, staging, 0, size)
      device.queue.submit([encoder.finish()])
      await staging.mapAsync(1)
      host.set(new Uint8Array(staging.getMappedRange()), offset)
      staging.unmap()
    }
  }
}
