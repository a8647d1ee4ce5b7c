import type { DeviceGuard } from './device-guard.ts'
import { BufferUsage, MapMode } from '../flags.ts'

/** How state moves between device and host: several staging buffers, used over and over. */
export interface RingOptions {
  /** Bytes of one staging buffer, a multiple of 4. Default 4 MiB. */
  readonly chunkBytes?: number | undefined
  /** How many there are: while one is copied by the CPU, the GPU fills the next. Default 3. */
  readonly slots?: number | undefined
}

const usages = {
  read: BufferUsage.MapRead | BufferUsage.CopyDst,
  write: BufferUsage.MapWrite | BufferUsage.CopySrc,
} as const

/** A ring of staging buffers in one direction. At most `slots` are out at a time; the others wait their turn. */
export class Ring {
  readonly chunkBytes: number
  readonly slots: number
  readonly #guard: DeviceGuard
  readonly #usage: number
  readonly #free: GPUBuffer[] = []
  readonly #all: GPUBuffer[] = []
  readonly #waiting: ((slot: GPUBuffer) => void)[] = []

  constructor(guard: DeviceGuard, direction: 'read' | 'write', options: RingOptions) {
    this.chunkBytes = options.chunkBytes ?? 4 * 2 ** 20
    this.slots = options.slots ?? 3
    if (!Number.isInteger(this.chunkBytes) || this.chunkBytes < 4 || this.chunkBytes % 4 !== 0) {
      throw new TypeError(`chunkBytes must be a positive multiple of 4, not ${this.chunkBytes}`)
    }
    if (!Number.isInteger(this.slots) || this.slots < 1) {
      throw new TypeError(`slots must be an integer from 1 up, not ${this.slots}`)
    }
    this.#guard = guard
    this.#usage = usages[direction]
  }

  /** A staging buffer that nobody uses. Give it back with `release`. */
  acquire(): Promise<GPUBuffer> {
    const free = this.#free.pop()
    if (free !== undefined) return Promise.resolve(free)
    if (this.#all.length < this.slots) {
      const size = this.chunkBytes
      const slot = this.#guard.device.createBuffer({ label: 'egpu staging', size, usage: this.#usage })
      this.#all.push(slot)
      return Promise.resolve(slot)
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  release(slot: GPUBuffer): void {
    if (slot.mapState === 'mapped') slot.unmap()
    const next = this.#waiting.shift()
    if (next === undefined) this.#free.push(slot)
    else next(slot)
  }

  close(): void {
    for (const slot of this.#all) slot.destroy()
  }
}

/** The bytes of a device buffer, in order, in pieces that are the caller's to keep. */
export async function* drain(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const underWay: Promise<Uint8Array>[] = []
  try {
    for (let offset = 0; offset < source.size; offset += ring.chunkBytes) {
      if (underWay.length === ring.slots) yield await (underWay.shift() as Promise<Uint8Array>)
      const chunk = readChunk(guard, ring, source, offset, signal)
      // It may fail while the reader is elsewhere; the reader hears of it when its turn comes.
      chunk.catch(() => {})
      underWay.push(chunk)
    }
    while (underWay.length > 0) yield await (underWay.shift() as Promise<Uint8Array>)
  } finally {
    await Promise.allSettled(underWay)
  }
}

async function readChunk(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  offset: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const slot = await ring.acquire()
  try {
    guard.check()
    const size = Math.min(ring.chunkBytes, source.size - offset)
    const encoder = guard.device.createCommandEncoder()
    encoder.copyBufferToBuffer(source, offset, slot, 0, size)
    guard.device.queue.submit([encoder.finish()])
    await guard.map(slot, MapMode.Read, signal)
    return new Uint8Array(slot.getMappedRange(0, size)).slice()
  } finally {
    ring.release(slot)
  }
}

/**
 * Writes bytes that arrive in pieces of any size into a device buffer, and returns how many there were; once there are
 * more than fit it stops reading.
 */
export async function fill(
  guard: DeviceGuard,
  ring: Ring,
  destination: GPUBuffer,
  pieces: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let written = 0
  let slot: GPUBuffer | undefined
  let mapped = new Uint8Array()
  let filled = 0
  const flush = (full: GPUBuffer): void => {
    full.unmap()
    const encoder = guard.device.createCommandEncoder()
    encoder.copyBufferToBuffer(full, 0, destination, written, filled)
    guard.device.queue.submit([encoder.finish()])
    written += filled
    ring.release(full)
    slot = undefined
  }
  try {
    for await (const piece of pieces) {
      for (let taken = 0; taken < piece.byteLength;) {
        const known = written + (slot === undefined ? 0 : filled) + piece.byteLength - taken
        if (known > destination.size) return known
        if (slot === undefined) {
          slot = await ring.acquire()
          await guard.map(slot, MapMode.Write, signal)
          mapped = new Uint8Array(slot.getMappedRange())
          filled = 0
        }
        const size = Math.min(mapped.byteLength - filled, piece.byteLength - taken)
        mapped.set(piece.subarray(taken, taken + size), filled)
        taken += size
        filled += size
        if (filled === mapped.byteLength) flush(slot)
      }
    }
    const total = written + (slot === undefined ? 0 : filled)
    if (slot !== undefined && filled % 4 === 0) flush(slot)
    return total
  } finally {
    if (slot !== undefined) ring.release(slot)
  }
}
