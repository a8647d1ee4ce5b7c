import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import type { Compressed, Digest, Job, JobResult, ReadBack, ReadJob } from './jobs.ts'

/** Four read and check as fast as `dd` reads what is in memory; more would take time from the work that is being saved. */
const mostWorkers = 4

/** Handing a smaller piece to another thread takes longer than hashing it. */
const worthAThread = 2 ** 15

interface Waiting {
  resolve(result: JobResult): void
  reject(error: unknown): void
}

interface Answer {
  readonly id: number
  readonly result?: JobResult
  readonly error?: string
  readonly noZstd?: boolean
}

interface ReadPlace extends Omit<ReadJob, 'kind' | 'bytes'> {
  /** Handed over: it is gone until it comes back. */
  readonly memory: () => Uint8Array<ArrayBuffer>
}

/** Nothing is wrong with the data: this process cannot read or write zstd. */
export class NoZstd extends Error {}

/** One thread and what it was asked for. It keeps the process alive only while something is. */
class ChunkWorker {
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiting>()
  #jobs = 0
  #isUp = false

  constructor(path: string, onEnd: (worker: ChunkWorker) => void) {
    const worker = new Worker(path, { execArgv: [] })
    this.#worker = worker
    worker.on('online', () => (this.#isUp = true))
    worker.on('message', ({ id, result, error = '', noZstd = false }: Answer) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (this.#waiting.size === 0) worker.unref()
      if (result === undefined) waiting?.reject(noZstd ? new NoZstd(error) : new Error(error))
      else waiting?.resolve(result)
    })
    const end = (error: unknown): void => {
      onEnd(this)
      for (const waiting of this.#waiting.values()) waiting.reject(error)
      this.#waiting.clear()
    }
    worker.on('error', end)
    worker.on('exit', (code) => end(new Error(`the thread that hashes ended with ${code}`)))
    // After the listeners, since one for messages counts as somebody who waits.
    worker.unref()
  }

  /** It runs, and takes no tenth of a second to begin. */
  get isUp(): boolean {
    return this.#isUp
  }

  get load(): number {
    return this.#waiting.size
  }

  run(job: Job, moved: readonly ArrayBuffer[]): Promise<JobResult> {
    const id = (this.#jobs += 1)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#worker.ref()
      this.#worker.postMessage({ id, job }, [...moved])
    })
  }
}

/** Threads for hashing, compressing and reading, shared by all stores of the process and started when first needed. */
class ChunkPool {
  /** Threads at most. */
  readonly size: number = Math.min(mostWorkers, availableParallelism())
  readonly #workers: ChunkWorker[] = []
  #isBroken = false

  /** Of bytes in shared memory. Without threads, and until they run, it is done here: slower, but right. */
  async digest(bytes: Uint8Array): Promise<Digest> {
    const worker = bytes.byteLength < worthAThread ? undefined : this.#ready()
    if (worker === undefined) return digestHere(bytes)
    return (await worker.run({ kind: 'digest', bytes }, []).catch(() => digestHere(bytes))) as Digest
  }

  /**
   * Reads neighbouring chunks into `memory()` and takes the CRC-32 of each. `undefined` where there is no thread for that
   * now. Rejects where it could not be read; the same read made here tells why.
   */
  read({ memory, ...place }: ReadPlace): Promise<ReadBack> | undefined {
    const worker = this.#ready()
    if (worker === undefined) return undefined
    const bytes = memory()
    return worker.run({ kind: 'read', bytes, ...place }, [bytes.buffer]) as Promise<ReadBack>
  }

  /** Rejects with `NoZstd` where there is none. */
  async compress(bytes: Uint8Array, level: number): Promise<Compressed> {
    return (await this.#needed().run({ kind: 'compress', bytes, level }, [])) as Compressed
  }

  /** `stored` is gone afterwards. */
  async expand(stored: Uint8Array<ArrayBuffer>, byteLength: number): Promise<Uint8Array<ArrayBuffer>> {
    const result = await this.#needed().run({ kind: 'expand', stored, byteLength }, [stored.buffer])
    return (result as { readonly bytes: Uint8Array<ArrayBuffer> }).bytes
  }

  #needed(): ChunkWorker {
    const worker = this.#free()
    if (worker === undefined) throw new NoZstd('no thread could be started for zstd')
    return worker
  }

  #ready(): ChunkWorker | undefined {
    const worker = this.#free()
    return worker?.isUp === true ? worker : this.#workers.find(({ isUp }) => isUp)
  }

  #free(): ChunkWorker | undefined {
    const idle = this.#workers.find(({ load }) => load === 0)
    if (idle !== undefined) return idle
    if (this.#workers.length < this.size) this.#start()
    return [...this.#workers].sort((a, b) => a.load - b.load)[0]
  }

  /** A bundler that moved the package's files leaves nothing to start; what failed once is not tried again. */
  #start(): void {
    if (this.#isBroken) return
    try {
      const path = createRequire(import.meta.url).resolve('#chunk-worker')
      const onEnd = (worker: ChunkWorker): void => {
        this.#isBroken = true
        const place = this.#workers.indexOf(worker)
        if (place !== -1) this.#workers.splice(place, 1)
      }
      this.#workers.push(new ChunkWorker(path, onEnd))
    } catch {
      this.#isBroken = true
    }
  }
}

export const chunkPool: ChunkPool = new ChunkPool()

function digestHere(bytes: Uint8Array): Digest {
  return { crc32: crc32(bytes), sha256: createHash('sha256').update(bytes).digest('hex') }
}
