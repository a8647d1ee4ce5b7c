import { createHash, randomBytes, webcrypto } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { ChunkRef } from './manifest.ts'
import type { StoreFile, StoreFs } from './store-fs.ts'

/** How many chunks are hashed and written at the same time: enough to keep the disk busy while others are hashed. */
const inFlight = 4

/** Handing a smaller piece to the thread pool takes longer than hashing it. */
const worthAThread = 2 ** 15

/** A chunk whose bytes may be on their way, known by its content already. */
type Ref = Promise<ChunkRef>

/**
 * Takes the bytes of a checkpoint, cuts them into chunks and writes those whose content is new to one file. Hashing runs
 * in the thread pool, next to the writes.
 */
export class PackWriter {
  readonly name: string = `${randomBytes(16).toString('hex')}.pack`
  readonly #fs: StoreFs
  readonly #directory: string
  readonly #chunkBytes: number
  readonly #known: ReadonlyMap<string, ChunkRef>
  readonly #own = new Map<string, Ref>()
  readonly #parts = new Map<string, Ref[]>()
  readonly #buffers: Uint8Array<ArrayBuffer>[] = []
  readonly #busy = new Set<Promise<unknown>>()
  #part: string | undefined
  #buffer: Uint8Array<ArrayBuffer> | undefined
  #filled = 0
  #end = 0
  #placed: Promise<unknown> = Promise.resolve()
  #file: Promise<StoreFile> | undefined
  #failure: { readonly error: unknown } | undefined

  /** `known`: chunks by SHA-256 that are stored already and stay for as long as this checkpoint. */
  constructor(fs: StoreFs, directory: string, chunkBytes: number, known: ReadonlyMap<string, ChunkRef>) {
    this.#fs = fs
    this.#directory = directory
    this.#chunkBytes = chunkBytes
    this.#known = known
  }

  /** Bytes that had to be written because their content was new. */
  get writtenBytes(): number {
    return this.#end
  }

  /** Copies `bytes`; waits only when the disk is behind. */
  async append(part: string, bytes: Uint8Array): Promise<void> {
    if (part !== this.#part) {
      this.#cut()
      this.#part = part
    }
    for (let at = 0; at < bytes.byteLength;) {
      this.#throwFailure()
      this.#buffer ??= await this.#freeBuffer()
      const piece = bytes.subarray(at, at + this.#chunkBytes - this.#filled)
      this.#buffer.set(piece, this.#filled)
      this.#filled += piece.byteLength
      at += piece.byteLength
      if (this.#filled === this.#chunkBytes) this.#cut()
    }
  }

  /** Waits until everything is on the disk; the chunks of each part, in order. */
  async finish(): Promise<ReadonlyMap<string, readonly ChunkRef[]>> {
    this.#cut()
    const parts = new Map<string, readonly ChunkRef[]>()
    for (const [part, refs] of this.#parts) parts.set(part, await Promise.all(refs))
    this.#throwFailure()
    const file = await this.#file
    await file?.sync()
    await file?.close()
    return parts
  }

  /** Leaves nothing behind. */
  async discard(): Promise<void> {
    await Promise.allSettled(this.#busy)
    const file = await this.#file?.catch(() => undefined)
    if (file === undefined) return
    await file.close().catch(() => undefined)
    await this.#fs.remove(`${this.#directory}/${this.name}`)
  }

  #cut(): void {
    const buffer = this.#buffer
    const part = this.#part
    if (buffer === undefined || part === undefined || this.#filled === 0) return
    const bytes = buffer.subarray(0, this.#filled)
    this.#buffer = undefined
    this.#filled = 0
    const ref = this.#store(bytes)
    const refs = this.#parts.get(part)
    if (refs === undefined) this.#parts.set(part, [ref])
    else refs.push(ref)
    const busy = ref
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#busy.delete(busy)
        this.#buffers.push(buffer)
      })
    this.#busy.add(busy)
  }

  /** Hashed side by side, placed in order: neighbours in the state are neighbours in the file, and read together. */
  async #store(bytes: Uint8Array<ArrayBuffer>): Promise<ChunkRef> {
    const hashing = bytes.byteLength < worthAThread ? Promise.resolve(hashHere(bytes)) : hashInPool(bytes)
    const placed = Promise.all([hashing, this.#placed]).then(([sha256]) => ({ ref: this.#place(bytes, sha256) }))
    this.#placed = placed.catch(() => undefined)
    return (await placed).ref
  }

  #place(bytes: Uint8Array<ArrayBuffer>, sha256: string): Ref {
    const known = this.#known.get(sha256)
    if (known !== undefined) return Promise.resolve(known)
    const ref = this.#own.get(sha256) ?? this.#write(bytes, sha256)
    this.#own.set(sha256, ref)
    return ref
  }

  async #write(bytes: Uint8Array, sha256: string): Promise<ChunkRef> {
    const offset = this.#end
    this.#end += bytes.byteLength
    this.#file ??= this.#fs.open(`${this.#directory}/${this.name}`, 'create')
    const file = await this.#file
    await file.write(bytes, offset)
    return { pack: this.name, offset, byteLength: bytes.byteLength, crc32: crc32(bytes), sha256 }
  }

  async #freeBuffer(): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#buffers.length === 0 && this.#busy.size >= inFlight) await Promise.race(this.#busy)
    this.#throwFailure()
    return this.#buffers.pop() ?? new Uint8Array(this.#chunkBytes)
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}

function hashHere(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

async function hashInPool(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex')
}
