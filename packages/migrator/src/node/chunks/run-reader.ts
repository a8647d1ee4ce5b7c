import type { ChunkRef } from '../manifest.ts'
import type { StoreFile } from '../store-fs.ts'
import { chunkPool } from './chunk-pool.ts'
import { corrupt } from './content.ts'

/** Neighbouring chunks are read together up to this many bytes: each call costs a trip to another thread. */
export const runBytes: number = 2 ** 20

/**
 * Runs that are read ahead of the one that is out: enough for a disk, one that each thread reads and one that waits for it.
 * More memory than this is out of the processor's cache by then, and to touch it for the first time costs more than to read.
 */
export const readAhead: number = 2 * chunkPool.size - 1

/** Memory that is kept for the next one to read: as much as is read ahead, and what its reader has. */
const mostSpare = readAhead + 2

/** Chunks that lie one behind the other in one pack. */
export interface Run {
  readonly pack: string
  readonly offset: number
  storedBytes: number
  readonly chunks: ChunkRef[]
}

/** What was read of a run. */
export interface ReadRun {
  /** At least the run. */
  readonly bytes: Uint8Array<ArrayBuffer>
  /** CRC-32 of what is there of each chunk, where it was computed already. */
  readonly crcs: readonly number[]
}

export interface RunReaderOptions {
  /** What is read was copied by the time that it is given back. */
  readonly transient: boolean
  /** Threads read and check: worth it for much. Copying and checking then keep up with a plain read of what is in memory. */
  readonly threads: boolean
  /** Memory to use again: to touch a page for the first time costs more than to read and check it. */
  readonly spare: Uint8Array<ArrayBuffer>[]
}

/** Reads runs of chunks, several at a time. */
export class RunReader {
  readonly #options: RunReaderOptions

  constructor(options: RunReaderOptions) {
    this.#options = options
  }

  /** Rejects with `EGPU_CHECKPOINT_CORRUPT` where the file ends too soon. */
  async read(file: StoreFile, run: Run): Promise<ReadRun> {
    const { bytes, count, crcs } = (await this.#beside(file, run)) ?? (await this.#here(file, run))
    if (count < run.storedBytes) throw corrupt(`${run.pack} ends within a chunk`)
    return { bytes, crcs }
  }

  /** The memory of a run is no longer used. */
  giveBack({ bytes }: ReadRun): void {
    const { transient, spare } = this.#options
    if (transient && spare.length < mostSpare) spare.push(bytes)
  }

  /** `undefined` where no thread can, or could not: then it is tried here. */
  async #beside(
    { fd }: StoreFile,
    { offset, chunks, storedBytes }: Run,
  ): Promise<(ReadRun & { count: number }) | undefined> {
    if (fd === undefined || !this.#options.threads) return undefined
    const lengths = chunks.map((chunk) => chunk.storedBytes)
    return chunkPool.read({ fd, offset, lengths, memory: () => this.#memory(storedBytes) })?.catch(() => undefined)
  }

  async #here(file: StoreFile, { offset, storedBytes }: Run): Promise<ReadRun & { count: number }> {
    const bytes = this.#memory(storedBytes)
    return { bytes, count: await file.read(bytes.subarray(0, storedBytes), offset), crcs: [] }
  }

  #memory(byteLength: number): Uint8Array<ArrayBuffer> {
    const { transient, spare } = this.#options
    if (!transient) return freshMemory(byteLength)
    const bytes = spare.pop()
    return bytes !== undefined && bytes.byteLength >= byteLength ? bytes : freshMemory(Math.max(runBytes, byteLength))
  }
}

/** Every byte is read into before any is looked at, so there is no need to clear it. No `Buffer`: its `slice` copies nothing. */
function freshMemory(byteLength: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.allocUnsafeSlow(byteLength).buffer)
}
