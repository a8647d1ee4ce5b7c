import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { EGpuError, EGpuErrorCode } from '@egpu/core'

interface Job {
  resolve(sha256: string): void
  reject(error: Error): void
}

interface Hand {
  readonly worker: Worker
  readonly jobs: Map<number, Job>
}

/** More hands than this are never needed to keep up with a cable: one does 10 Gb/s. */
const mostHands = 4

/** Handing less to a thread takes longer than hashing it. */
const worthAThread = 2 ** 16

class HashPool {
  readonly #size: number
  readonly #hands: Hand[] = []
  #ids = 0

  constructor(size: number = Math.max(1, Math.min(mostHands, availableParallelism() - 1))) {
    this.#size = size
  }

  /** SHA-256 of bytes in a `SharedArrayBuffer`, in hex. They must not change before it resolves. */
  sha256(bytes: Uint8Array): Promise<string> {
    if (bytes.byteLength < worthAThread) return Promise.resolve(createHash('sha256').update(bytes).digest('hex'))
    return new Promise((resolve, reject) => {
      const hand = this.#hand()
      const id = (this.#ids += 1)
      hand.jobs.set(id, { resolve, reject })
      hand.worker.ref()
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      hand.worker.postMessage({ id, bytes: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) })
    })
  }

  /** The least busy; a new one while there may be more and none is idle. */
  #hand(): Hand {
    const [least] = [...this.#hands].sort((a, b) => a.jobs.size - b.jobs.size)
    if (least !== undefined && (least.jobs.size === 0 || this.#hands.length >= this.#size)) return least
    // Found by name, so that it is the same file from the sources and from the built package.
    const worker = new Worker(createRequire(import.meta.url).resolve('#hash-worker'))
    const hand: Hand = { worker, jobs: new Map() }
    worker.on('message', ({ id, sha256 }: { id: number; sha256: string }) => {
      hand.jobs.get(id)?.resolve(sha256)
      hand.jobs.delete(id)
      if (hand.jobs.size === 0) worker.unref()
    })
    worker.on('error', (error) => this.#drop(hand, error))
    worker.on('exit', () => this.#drop(hand, new EGpuError(EGpuErrorCode.Closed, 'a hashing thread has ended')))
    // After the listeners, since one for messages counts as somebody who waits.
    worker.unref()
    this.#hands.push(hand)
    return hand
  }

  #drop(hand: Hand, error: Error): void {
    const place = this.#hands.indexOf(hand)
    if (place >= 0) this.#hands.splice(place, 1)
    for (const job of hand.jobs.values()) job.reject(error)
    hand.jobs.clear()
  }
}

/**
 * SHA-256 in worker threads, so that the event loop is free for the sockets. Threads start when first needed, serve the
 * whole process, and do not keep it alive.
 */
export const hashes: { sha256(bytes: Uint8Array): Promise<string> } = new HashPool()

/** Memory that a worker thread can read without a copy. */
export function sharedBuffer(byteLength: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(byteLength))
}
