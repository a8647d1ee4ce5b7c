import { BufferUsage } from '../flags.ts'

/** Buffers to read back through, kept by size class and used again. Belongs to one device. */
export class StagingPool {
  readonly #device: GPUDevice
  readonly #free = new Map<number, GPUBuffer[]>()
  #freeBytes = 0

  /** More than this is not kept for later. */
  static readonly keptBytes: number = 64 * 2 ** 20

  constructor(device: GPUDevice) {
    this.#device = device
  }

  acquire(size: number): GPUBuffer {
    const rounded = sizeClass(size, this.#device.limits.maxBufferSize)
    const free = this.#free.get(rounded)?.pop()
    if (free !== undefined) {
      this.#freeBytes -= rounded
      return free
    }
    const usage = BufferUsage.MapRead | BufferUsage.CopyDst
    return this.#device.createBuffer({ label: 'egpu readback', size: rounded, usage })
  }

  release(buffer: GPUBuffer): void {
    if (this.#freeBytes + buffer.size > StagingPool.keptBytes) {
      buffer.destroy()
      return
    }
    const free = this.#free.get(buffer.size)
    if (free === undefined) this.#free.set(buffer.size, [buffer])
    else free.push(buffer)
    this.#freeBytes += buffer.size
  }
}

function sizeClass(size: number, most: number): number {
  return Math.min(Math.max(256, 2 ** Math.ceil(Math.log2(Math.max(1, size)))), Math.max(size, most))
}
