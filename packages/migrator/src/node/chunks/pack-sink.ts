import { randomBytes } from 'node:crypto'
import type { StoreFile, StoreFs } from '../store-fs.ts'
import type { ChunkSink } from './chunk-writer.ts'

/** So many bytes after one another are on the way to the disk while the next are hashed. */
const flushEvery = 2 ** 24

/** New chunks of one checkpoint, one after the other in one file. */
export class PackSink implements ChunkSink {
  readonly name: string = `${randomBytes(16).toString('hex')}.pack`
  readonly #fs: StoreFs
  readonly #path: string
  #file: Promise<StoreFile> | undefined
  #end = 0
  /** Writes to one file wait for each other in the kernel, spinning at first: one at a time takes less of the processor. */
  #writing: Promise<unknown> = Promise.resolve()
  #unflushed = 0
  #flushing: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined

  constructor(fs: StoreFs, directory: string) {
    this.#fs = fs
    this.#path = `${directory}/${this.name}`
  }

  async put(bytes: Uint8Array): Promise<{ readonly pack: string; readonly offset: number }> {
    const offset = this.#end
    this.#end += bytes.byteLength
    this.#file ??= this.#fs.open(this.#path, 'create')
    const file = await this.#file
    const writing = this.#writing.then(() => file.write(bytes, offset))
    this.#writing = writing.catch(() => undefined)
    await writing
    this.#unflushed += bytes.byteLength
    if (this.#unflushed >= flushEvery) this.#flush(file)
    return { pack: this.name, offset }
  }

  async finish(): Promise<void> {
    await this.#flushing
    // What one sync was told of a failing disk, the next is not (fsync(2)).
    if (this.#failure !== undefined) throw this.#failure.error
    const file = await this.#file
    await file?.sync()
    await file?.close()
  }

  async discard(): Promise<void> {
    await this.#flushing
    const file = await this.#file?.catch(() => undefined)
    if (file === undefined) return
    await file.close().catch(() => undefined)
    await this.#fs.remove(this.#path)
  }

  /** Linux would wait for half a minute, or for much more, before it begins to write. */
  #flush(file: StoreFile): void {
    if (file.flush === undefined || this.#flushing !== undefined) return
    this.#unflushed = 0
    this.#flushing = file
      .flush()
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => {
        this.#flushing = undefined
      })
  }
}
