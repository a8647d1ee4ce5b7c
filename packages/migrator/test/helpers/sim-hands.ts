import type { OpenTarget } from '@egpu/core'
import type { SimBuffer, SimGpu } from '@egpu/driver-sim'
import type { ProbeHands } from '../../src/placement/probe.ts'

/** Hands for probing a simulated GPU. */
export function simHands(open: OpenTarget): ProbeHands {
  const gpu = open.handle as SimGpu
  let buffer: SimBuffer | undefined
  return {
    async write(bytes, options) {
      if (buffer === undefined || buffer.byteLength < bytes.byteLength) {
        if (buffer !== undefined) gpu.destroyBuffer(buffer)
        buffer = gpu.createBuffer(bytes.byteLength, { label: 'probe' })
      }
      await gpu.write(buffer, bytes, options)
    },
    read: (byteLength, options) => gpu.read(buffer as SimBuffer, { ...options, byteLength }),
    compute: (flops, options) => gpu.run(() => undefined, { flops, ...options }),
    stream: (vramBytes, options) => gpu.run(() => undefined, { vramBytes, ...options }),
    async [Symbol.asyncDispose]() {
      if (buffer !== undefined) gpu.destroyBuffer(buffer)
    },
  }
}
