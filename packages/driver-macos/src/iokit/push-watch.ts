import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { Libraries, LibraryPaths, Pointer } from '../native/libraries.d.ts'
import type { RegistryChange, RegistryWatch, WaitOptions } from '../registry/source.ts'

/** Messages of the worker: first its run loop, which says that it is subscribed, then every change. */
type WorkerMessage = { readonly loop: Pointer } | RegistryChange

const nothing: RegistryChange = { added: [], removed: [], overflowed: false }

/** Hears of changes from a run loop in a worker thread, a few milliseconds after the kernel. */
export class PushWatch implements RegistryWatch {
  readonly #libraries: Libraries
  readonly #clock: Clock
  readonly #worker: Worker
  readonly #stop: Int32Array = new Int32Array(new SharedArrayBuffer(4))
  readonly #exited: Promise<void>
  #loop: Pointer = null
  #pending: RegistryChange = nothing
  #failure: EGpuError | undefined
  #wake: (() => void) | undefined

  private constructor(libraries: Libraries, paths: LibraryPaths, classNames: readonly string[], clock: Clock) {
    this.#libraries = libraries
    this.#clock = clock
    // Found by name, so that it is the same file from the sources and from the built package.
    const file = createRequire(import.meta.url).resolve('#push-worker')
    this.#worker = new Worker(file, { workerData: { paths, classNames, stop: this.#stop } })
    this.#exited = new Promise((resolve) => this.#worker.once('exit', () => resolve()))
  }

  /** Resolves once the worker is subscribed. */
  static async start(
    libraries: Libraries,
    paths: LibraryPaths,
    classNames: readonly string[],
    { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  ): Promise<PushWatch> {
    const watch = new PushWatch(libraries, paths, classNames, clock)
    try {
      await watch.#subscribed(signal)
      return watch
    } catch (error) {
      await watch[Symbol.asyncDispose]()
      throw error
    }
  }

  async next({ signal, timeoutMs }: WaitOptions): Promise<RegistryChange> {
    signal.throwIfAborted()
    if (this.#pending === nothing && this.#failure === undefined) await this.#change(signal, timeoutMs)
    if (this.#failure !== undefined) throw this.#failure
    const change = this.#pending
    this.#pending = nothing
    return change
  }

  async [Symbol.asyncDispose](): Promise<void> {
    Atomics.store(this.#stop, 0, 1)
    if (this.#loop !== null) this.#libraries.CFRunLoopStop(this.#loop)
    this.#loop = null
    await this.#exited
  }

  #subscribed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      this.#worker.on('message', (message: WorkerMessage) => {
        if ('loop' in message) {
          this.#loop = message.loop
          resolve()
        } else {
          this.#pending = merge(this.#pending, message)
          this.#wake?.()
        }
      })
      this.#worker.once('error', (cause) => {
        const message = `the thread that listens to IOKit ended: ${cause instanceof Error ? cause.message : String(cause)}`
        this.#failure = new EGpuError(EGpuErrorCode.NativeUnavailable, message, { cause, driver: 'macos' })
        this.#loop = null
        reject(this.#failure)
        this.#wake?.()
      })
    })
  }

  /** Resolves when the worker has spoken or the time is up. */
  async #change(signal: AbortSignal, timeoutMs: number): Promise<void> {
    const ended = new AbortController()
    const end = (): void => ended.abort()
    this.#wake = end
    // By hand: `AbortSignal.any` of Node 20 keeps something on `signal` for every wait (nodejs/node issue 55351).
    signal.addEventListener('abort', end, { once: true })
    try {
      await this.#clock.sleep(timeoutMs, { signal: ended.signal })
    } catch (error) {
      if (!ended.signal.aborted) throw error
      signal.throwIfAborted()
    } finally {
      this.#wake = undefined
      signal.removeEventListener('abort', end)
    }
  }
}

function merge(before: RegistryChange, after: RegistryChange): RegistryChange {
  return {
    added: [...before.added, ...after.added],
    removed: [...before.removed, ...after.removed],
    overflowed: before.overflowed || after.overflowed,
  }
}
