import type { DeviceGuard } from './device-guard.ts'
import { pack, readSpans } from './ring.ts'
import type { Batch, Ring, Span } from './ring.ts'

interface Fetched extends Batch {
  /** Spans that nobody has taken yet. */
  left: number
  bytes?: Promise<Uint8Array>
}

/**
 * Reads many small spans of one buffer, several through each staging buffer: one at a time, the way to the device and
 * back would take longer than the bytes. The next ones are fetched while the reader is busy.
 */
export class ChangedReader {
  readonly #guard: DeviceGuard
  readonly #ring: Ring
  readonly #source: GPUBuffer
  readonly #batches: readonly Fetched[]
  readonly #batchOf: ReadonlyMap<number, number>

  /** `spans` are none larger than the ring's chunks. */
  constructor(guard: DeviceGuard, ring: Ring, source: GPUBuffer, spans: readonly Span[]) {
    this.#guard = guard
    this.#ring = ring
    this.#source = source
    this.#batches = pack(spans, ring.chunkBytes).map((batch) => ({ ...batch, left: batch.spans.length }))
    this.#batchOf = new Map(
      this.#batches.flatMap((batch, index) => batch.spans.map(({ offset }) => [offset, index] as const)),
    )
  }

  /** The bytes of one of the spans; `undefined` when it is none of them or was taken before. */
  async take(wanted: Span, signal: AbortSignal | undefined): Promise<Uint8Array | undefined> {
    const index = this.#batchOf.get(wanted.offset)
    const batch = index === undefined ? undefined : this.#batches[index]
    if (index === undefined || batch === undefined || batch.left === 0) return undefined
    let at = 0
    for (const { offset, byteLength } of batch.spans) {
      if (offset === wanted.offset && byteLength !== wanted.byteLength) return undefined
      if (offset === wanted.offset) break
      at += byteLength
    }
    const bytes = await this.#fetch(batch, signal)
    const next = this.#batches[index + 1]
    if (next !== undefined && next.left > 0) this.#fetch(next, signal).catch(() => {})
    batch.left -= 1
    if (batch.left === 0) delete batch.bytes
    return bytes.subarray(at, at + wanted.byteLength)
  }

  #fetch(batch: Fetched, signal: AbortSignal | undefined): Promise<Uint8Array> {
    batch.bytes ??= this.#read(batch, signal).catch((error: unknown) => {
      // Another reader may have more patience.
      delete batch.bytes
      throw error
    })
    return batch.bytes
  }

  async #read({ spans, byteLength }: Batch, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const bytes = new Uint8Array(byteLength)
    await readSpans(this.#guard, this.#ring, this.#source, spans, bytes, signal)
    return bytes
  }
}
