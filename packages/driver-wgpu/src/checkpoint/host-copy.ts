import { coreCount, loadNative, startThread } from '../host.ts'
import type { NativeLibrary, Thread } from '../host.ts'
import { laterQuietly } from '../device/timers.ts'

/** Below this a copy on the spot is over before a thread has heard of it. */
const worthwhileBytes = 2 ** 20

/** One thread copies about 10 GB/s; more of them than this wait for the memory. */
const mostThreads = 12

/** What one thread gets of a copy at a time: about 0.4 ms of work. */
const shareBytes = 4 * 2 ** 20

/** Threads that copy nothing for this long are ended. */
const restMs = 10_000

interface Share {
  readonly destination: Uint8Array
  readonly source: Uint8Array
  readonly done: () => void
}

/**
 * Copies `source` to the beginning of `destination`. Large copies are made by several native threads, which are not
 * those of Node's pool, so that they neither hold up the event loop nor files and names that the application waits for.
 * Without koffi, and in a browser, the copy is made on the spot. Neither end may be detached before it resolves.
 */
export async function copyBytes(destination: Uint8Array, source: Uint8Array): Promise<void> {
  const threads = source.byteLength < worthwhileBytes ? undefined : await (pool ??= CopyThreads.start())
  if (threads === undefined) destination.set(source)
  else await threads.copy(destination, source)
}

let pool: Promise<CopyThreads | undefined> | undefined

class CopyThreads {
  readonly #native: NativeLibrary
  readonly #idle: Thread[] = []
  readonly #busy: Map<Thread, Share> = new Map()
  readonly #waiting: Share[] = []
  #rest: { cancel(): void } | undefined
  #isOver = false

  private constructor(native: NativeLibrary) {
    this.#native = native
  }

  static async start(): Promise<CopyThreads | undefined> {
    const native = await loadNative()
    if (native === undefined) return undefined
    const threads = new CopyThreads(native)
    const count = Math.max(1, Math.min(mostThreads, coreCount() - 1))
    const starting = Array.from({ length: count }, () => threads.#add())
    return (await Promise.all(starting)).includes(true) ? threads : undefined
  }

  async copy(destination: Uint8Array, source: Uint8Array): Promise<void> {
    this.#rest?.cancel()
    this.#rest = undefined
    const shares: Promise<void>[] = []
    for (let at = 0; at < source.byteLength; at += shareBytes) {
      const part = source.subarray(at, at + shareBytes)
      const place = destination.subarray(at, at + part.byteLength)
      if (place.byteLength < part.byteLength) throw new RangeError('the destination of a copy is too small')
      shares.push(
        new Promise((done) => {
          this.#waiting.push({ destination: place, source: part, done })
        }),
      )
    }
    this.#handOut()
    await Promise.all(shares)
    if (this.#busy.size === 0) this.#rest ??= laterQuietly(restMs, () => this.#end())
  }

  /** Resolves once the thread works, or has failed to begin. */
  #add(): Promise<boolean> {
    const thread = startThread('copy-thread.js')
    if (thread === undefined) return Promise.resolve(false)
    // A process that does nothing else must still live until its threads have begun.
    thread.ref()
    return new Promise((resolve) => {
      thread.on('message', () => {
        resolve(true)
        this.#finish(thread)
        thread.unref()
        this.#idle.push(thread)
        this.#handOut()
      })
      thread.on('error', () => {})
      thread.on('exit', () => {
        resolve(false)
        this.#forget(thread)
      })
    })
  }

  #handOut(): void {
    while (this.#waiting.length > 0) {
      const thread = this.#idle.pop()
      if (thread === undefined) return
      const share = this.#waiting.shift() as Share
      this.#busy.set(thread, share)
      thread.ref()
      const { destination, source } = share
      const [to, from] = [this.#native.addressOf(destination), this.#native.addressOf(source)]
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      thread.postMessage([to, from, source.byteLength])
    }
  }

  #finish(thread: Thread): void {
    this.#busy.get(thread)?.done()
    this.#busy.delete(thread)
  }

  /** A thread is over, with or without having been told to. What it was to do is done on the spot. */
  #forget(thread: Thread): void {
    const at = this.#idle.indexOf(thread)
    if (at >= 0) this.#idle.splice(at, 1)
    const share = this.#busy.get(thread)
    share?.destination.set(share.source)
    this.#finish(thread)
    if (this.#isOver || this.#idle.length + this.#busy.size > 0) return
    for (const { destination, source, done } of this.#waiting.splice(0)) {
      destination.set(source)
      done()
    }
    // Threads do not run here: no more of them are tried.
    pool = Promise.resolve(undefined)
  }

  #end(): void {
    this.#isOver = true
    pool = undefined
    for (const thread of this.#idle) void thread.terminate()
  }
}
