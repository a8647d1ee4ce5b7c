import { BufferUsage, MapMode } from '../flags.ts'
import type { DeviceGuard } from './device-guard.ts'
import { copyBytes } from './host-copy.ts'
import { whileMapped } from './mapped-memory.ts'
import { Pace } from './pace.ts'
import type { BytesPerSecond } from './pace.ts'

/** How state moves between device and host: several staging buffers, used over and over. */
export interface RingOptions {
  /** Bytes of one staging buffer, a multiple of 4. Default 8 MiB, or less for a state that is smaller. */
  readonly chunkBytes?: number | undefined
  /** How many there are at most: while some are copied by the CPU, the GPU fills the next. Default 8. */
  readonly slots?: number | undefined
  /** How fast state may move in one direction. Default: as fast as it goes. */
  readonly bytesPerSecond?: BytesPerSecond | undefined
}

const usages = {
  read: BufferUsage.MapRead | BufferUsage.CopyDst,
  write: BufferUsage.MapWrite | BufferUsage.CopySrc,
} as const

/** A ring of staging buffers in one direction. At most `slots` are out at a time; the others wait their turn. */
export class Ring {
  readonly chunkBytes: number
  readonly slots: number
  readonly pace: Pace
  readonly #guard: DeviceGuard
  readonly #usage: number
  readonly #free: GPUBuffer[] = []
  readonly #waiting: ((slot: GPUBuffer) => void)[] = []
  #made = 0
  #isClosed = false

  constructor(guard: DeviceGuard, direction: 'read' | 'write', options: RingOptions) {
    const { chunkBytes, slots, pace } = ringShape(options)
    this.chunkBytes = chunkBytes
    this.slots = slots
    this.pace = pace
    this.#guard = guard
    this.#usage = usages[direction]
  }

  /** A staging buffer that nobody uses. Give it back with `release`. Rejects once nobody will give one back any more. */
  async acquire(): Promise<GPUBuffer> {
    this.#guard.check()
    const free = this.#free.pop()
    if (free !== undefined) return free
    if (this.#made < this.slots) {
      this.#made += 1
      return this.#guard.device.createBuffer({ label: 'egpu staging', size: this.chunkBytes, usage: this.#usage })
    }
    return await new Promise((resolve) => this.#waiting.push(resolve))
  }

  release(slot: GPUBuffer): void {
    // Also ends a mapping that is still pending because its reader gave up.
    if (slot.mapState !== 'unmapped') slot.unmap()
    const next = this.#waiting.shift()
    if (next !== undefined) next(slot)
    else if (this.#isClosed) slot.destroy()
    else this.#free.push(slot)
  }

  /** Frees what nobody uses; the rest goes when it comes back. */
  close(): void {
    this.#isClosed = true
    for (const slot of this.#free.splice(0)) slot.destroy()
  }
}

/** What the options come to; a `TypeError` for a ring that cannot be. */
export function ringShape(options: RingOptions): Pick<Ring, 'chunkBytes' | 'slots' | 'pace'> {
  const { chunkBytes = 4 * 2 ** 20, slots = 3 } = options
  if (!Number.isInteger(chunkBytes) || chunkBytes < 4 || chunkBytes % 4 !== 0) {
    throw new TypeError(`chunkBytes must be a positive multiple of 4, not ${chunkBytes}`)
  }
  if (!Number.isInteger(slots) || slots < 1) {
    throw new TypeError(`slots must be an integer from 1 up, not ${slots}`)
  }
  return { chunkBytes, slots, pace: new Pace(options.bytesPerSecond) }
}

/** Bytes of a device buffer. */
export interface Span {
  readonly offset: number
  readonly byteLength: number
}

/** Spans that pass through one staging buffer together. */
export interface Batch {
  readonly spans: readonly Span[]
  readonly byteLength: number
}

/** The spans, in their order, in as few staging buffers as they fit into; none may be larger than one. */
export function pack(spans: readonly Span[], most: number): readonly Batch[] {
  const batches: { spans: Span[]; byteLength: number }[] = []
  for (const span of spans) {
    const last = batches.at(-1)
    if (last === undefined || last.byteLength + span.byteLength > most) {
      batches.push({ spans: [span], byteLength: span.byteLength })
    } else {
      last.spans.push(span)
      last.byteLength += span.byteLength
    }
  }
  return batches
}

/** Into pieces that fit into a staging buffer. */
export function split({ offset, byteLength }: Span, most: number): readonly Span[] {
  return Array.from({ length: Math.ceil(byteLength / most) }, (_, index) => ({
    offset: offset + index * most,
    byteLength: Math.min(most, byteLength - index * most),
  }))
}

/** The bytes of a device buffer, in order, in pieces that are the caller's to keep. */
export async function* drain(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  signal: AbortSignal | undefined,
  { offset: begin, byteLength }: Span = { offset: 0, byteLength: source.size },
): AsyncGenerator<Uint8Array, void, undefined> {
  const underWay: Promise<Uint8Array>[] = []
  try {
    for (let offset = begin; offset < begin + byteLength; offset += ring.chunkBytes) {
      if (underWay.length === ring.slots) yield await (underWay.shift() as Promise<Uint8Array>)
      const piece = new Uint8Array(Math.min(ring.chunkBytes, begin + byteLength - offset))
      const span = { offset, byteLength: piece.byteLength }
      const chunk = readSpans(guard, ring, source, [span], piece, signal).then(() => piece)
      // It may fail while the reader is elsewhere; the reader hears of it when its turn comes.
      chunk.catch(() => {})
      underWay.push(chunk)
    }
    while (underWay.length > 0) yield await (underWay.shift() as Promise<Uint8Array>)
  } finally {
    await Promise.allSettled(underWay)
  }
}

/** The same into memory that is there already, which spares the pages of it from being made. Rejects like `drain`. */
export async function drainInto(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  destination: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  await drainSpans(guard, ring, source, [{ offset: 0, byteLength: source.size }], destination, signal)
}

/**
 * Some of the bytes of a device buffer, one span behind the other into memory that holds just that: small ones share a
 * staging buffer, large ones take several. Rejects like `drain`.
 */
export async function drainSpans(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  spans: readonly Span[],
  destination: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  const batches = pack(
    spans.flatMap((span) => split(span, ring.chunkBytes)),
    ring.chunkBytes,
  )[Symbol.iterator]()
  // The first failure ends the others: they see it before their next piece.
  const failing = new AbortController()
  const both = signal === undefined ? failing.signal : AbortSignal.any([failing.signal, signal])
  let at = 0
  const lanes = Array.from({ length: ring.slots }, async () => {
    for (let next = batches.next(); next.done !== true; next = batches.next()) {
      const { spans: some, byteLength } = next.value
      const place = destination.subarray(at, at + byteLength)
      at += byteLength
      try {
        await readSpans(guard, ring, source, some, place, both)
      } catch (error) {
        failing.abort(error)
        throw error
      }
    }
  })
  const failed = (await Promise.allSettled(lanes)).find(({ status }) => status === 'rejected')
  if (failed !== undefined) throw signal?.aborted === true ? signal.reason : failing.signal.reason
}

/** Copies spans of a device buffer, one behind the other, through one staging buffer. Together they fit into it. */
export async function readSpans(
  guard: DeviceGuard,
  ring: Ring,
  source: GPUBuffer,
  spans: readonly Span[],
  destination: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  const slot = await ring.acquire()
  try {
    await ring.pace.take(destination.byteLength, { signal })
    signal?.throwIfAborted()
    guard.check()
    const encoder = guard.device.createCommandEncoder()
    let at = 0
    for (const { offset, byteLength } of spans) {
      encoder.copyBufferToBuffer(source, offset, slot, at, byteLength)
      at += byteLength
    }
    guard.device.queue.submit([encoder.finish()])
    await guard.map(slot, MapMode.Read, signal)
    const mapped = new Uint8Array(slot.getMappedRange(0, at))
    await whileMapped(guard.device, () => copyBytes(destination, mapped))
  } finally {
    ring.release(slot)
  }
}
