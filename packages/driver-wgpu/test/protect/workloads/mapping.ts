import { join, read, Usage } from './workload.ts'
import type { Workload } from './workload.ts'

const bytes = 512

/** Uploads through one mapped buffer over and over, partial ranges, error scopes around it, objects that come and go. */
export const mapping: Workload = {
  name: 'mapped uploads',
  async run(device, pause) {
    const { queue } = device
    const upload = device.createBuffer({ size: bytes, usage: Usage.MAP_WRITE | Usage.COPY_SRC })
    const store = device.createBuffer({ size: bytes * 4, usage: Usage.STORAGE | Usage.COPY_SRC | Usage.COPY_DST })
    const verdicts: number[] = []
    for (let round = 0; round < 4; round += 1) {
      await upload.mapAsync(2)
      await pause()
      const low = new Uint8Array(upload.getMappedRange(0, 256))
      const high = new Uint8Array(upload.getMappedRange(256, 256))
      // Every other round one half keeps what it was given before.
      low.fill(round * 16 + 1)
      if (round % 2 === 0) high.set(low.map((value, i) => value ^ i))
      upload.unmap()
      const passing = device.createBuffer({ size: bytes, usage: Usage.COPY_SRC | Usage.COPY_DST })
      device.pushErrorScope('validation')
      const encoder = device.createCommandEncoder()
      encoder.copyBufferToBuffer(upload, 0, passing, 0, bytes)
      encoder.copyBufferToBuffer(passing, 0, store, bytes * round, bytes)
      queue.submit([encoder.finish()])
      if (round === 2) device.createBuffer({ size: 4, usage: 0 })
      passing.destroy()
      const error = await device.popErrorScope()
      await pause()
      verdicts.push(error === null ? 0 : 1)
    }
    return join(await read(device, store, pause), Uint8Array.from(verdicts))
  },
}
