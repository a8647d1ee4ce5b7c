import type { ChunkRef } from '../manifest.ts'
import { chunkPool } from './chunk-pool.ts'

/**
 * Bytes on their way: enough to keep the disk and two hashing threads busy while the next ones come in, few enough to be
 * in the processor's cache still when they are hashed and written. With twice as many a save takes half as much again.
 */
const inFlightBytes = 2 ** 23
const leastInFlight = 4
const mostInFlight = 64

/** Where new chunks go. Calls come in the order of the chunks; each may be under way while the next is made. */
export interface ChunkSink {
  /** `bytes` must not be used once it has settled. */
  put(bytes: Uint8Array): Promise<{ readonly pack: string; readonly offset: number }>
  /** Resolves once everything that was put will last. */
  finish(): Promise<void>
  /** Leaves nothing behind. */
  discard(): Promise<void>
}

export interface ChunkWriterOptions {
  readonly sink: ChunkSink
  readonly chunkBytes: number
  /** Chunks by SHA-256 that are stored already and stay for as long as this checkpoint. */
  readonly known: ReadonlyMap<string, ChunkRef>
  /** Chunks get smaller by zstd at this level, where they do. */
  readonly zstdLevel: number | undefined
  /** Memory to use again: fresh memory costs more than all the rest. */
  readonly buffers: Uint8Array<SharedArrayBuffer>[]
}

/** A chunk whose bytes may be on their way, known by its content already. */
type Ref = Promise<ChunkRef>

/** Takes the bytes of a checkpoint, cuts them into chunks, and hands those whose content is new to a sink. */
export class ChunkWriter {
  readonly #options: ChunkWriterOptions
  readonly #inFlight: number
  readonly #own = new Map<string, Ref>()
  readonly #parts = new Map<string, Ref[]>()
  readonly #busy = new Set<Promise<unknown>>()
  #part: string | undefined
  #buffer: Uint8Array<SharedArrayBuffer> | undefined
  #filled = 0
  #placed: Promise<unknown> = Promise.resolve()
  #failure: { readonly error: unknown } | undefined

  constructor(options: ChunkWriterOptions) {
    this.#options = options
    this.#inFlight = Math.min(mostInFlight, Math.max(leastInFlight, Math.floor(inFlightBytes / options.chunkBytes)))
  }

  /** Copies `bytes`; waits only when the store is behind. */
  async append(part: string, bytes: Uint8Array): Promise<void> {
    this.#begin(part)
    for (let at = 0; at < bytes.byteLength;) {
      this.#throwFailure()
      this.#buffer ??= await this.#freeBuffer()
      const piece = bytes.subarray(at, at + this.#options.chunkBytes - this.#filled)
      this.#buffer.set(piece, this.#filled)
      this.#filled += piece.byteLength
      at += piece.byteLength
      if (this.#filled === this.#options.chunkBytes) this.#cut()
    }
  }

  /** Takes over a chunk that is stored already. Only between chunks. */
  carry(part: string, chunk: ChunkRef): void {
    this.#begin(part)
    this.#refsOf(part).push(Promise.resolve(chunk))
  }

  /** Waits until everything will last; the chunks of each part, in order. */
  async finish(): Promise<ReadonlyMap<string, readonly ChunkRef[]>> {
    this.#cut()
    const parts = new Map<string, readonly ChunkRef[]>()
    for (const [part, refs] of this.#parts) parts.set(part, await Promise.all(refs))
    this.#throwFailure()
    await this.#options.sink.finish()
    return parts
  }

  async discard(): Promise<void> {
    await Promise.allSettled(this.#busy)
    await this.#options.sink.discard()
  }

  #begin(part: string): void {
    if (part === this.#part) return
    this.#cut()
    this.#part = part
  }

  #refsOf(part: string): Ref[] {
    const known = this.#parts.get(part)
    if (known !== undefined) return known
    const refs: Ref[] = []
    this.#parts.set(part, refs)
    return refs
  }

  #cut(): void {
    const buffer = this.#buffer
    const part = this.#part
    if (buffer === undefined || part === undefined || this.#filled === 0) return
    const bytes = buffer.subarray(0, this.#filled)
    this.#buffer = undefined
    this.#filled = 0
    const ref = this.#store(bytes)
    this.#refsOf(part).push(ref)
    const busy = ref
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#busy.delete(busy)
        if (this.#options.buffers.length < this.#inFlight) this.#options.buffers.push(buffer)
      })
    this.#busy.add(busy)
  }

  /** Hashed side by side, placed in order: neighbours in the state are neighbours in the store, and read together. */
  async #store(bytes: Uint8Array): Promise<ChunkRef> {
    const digesting = chunkPool.digest(bytes)
    const placed = Promise.all([digesting, this.#placed]).then(([{ sha256, crc32 }]) => {
      const known = this.#options.known.get(sha256) ?? this.#own.get(sha256)
      if (known !== undefined) return { ref: Promise.resolve(known) }
      const ref = this.#put(bytes, sha256, crc32)
      this.#own.set(sha256, ref)
      return { ref }
    })
    this.#placed = placed.catch(() => undefined)
    return (await placed).ref
  }

  async #put(bytes: Uint8Array, sha256: string, crc32: number): Promise<ChunkRef> {
    const { sink, zstdLevel } = this.#options
    const { byteLength } = bytes
    if (zstdLevel !== undefined) {
      const smaller = await chunkPool.compress(bytes, zstdLevel)
      const storedBytes = smaller.stored.byteLength
      if (storedBytes < byteLength) {
        const place = await sink.put(smaller.stored)
        return { ...place, byteLength, storedBytes, crc32: smaller.crc32, sha256 }
      }
    }
    return { ...(await sink.put(bytes)), byteLength, storedBytes: byteLength, crc32, sha256 }
  }

  async #freeBuffer(): Promise<Uint8Array<SharedArrayBuffer>> {
    while (this.#busy.size >= this.#inFlight) await Promise.race(this.#busy)
    this.#throwFailure()
    return this.#options.buffers.pop() ?? new Uint8Array(new SharedArrayBuffer(this.#options.chunkBytes))
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
