interface Reader<T> {
  resolve(result: IteratorResult<T>): void
  reject(error: unknown): void
}

/**
 * Turns pushes into an async iterable: what a driver's `watch()` returns. Holds everything that was pushed until it is
 * read. Three ways to end: `end()` and an abort of `signal` drop what nobody has read, `finish()` lets it be read
 * first, `fail()` too and then throws.
 */
export class EventQueue<T> implements AsyncIterableIterator<T> {
  #items: T[] = []
  #head = 0
  /** Reads that came before their item, oldest first: callers may ask ahead. */
  readonly #readers: Reader<T>[] = []
  #ended = false
  #failure: { readonly error: unknown } | undefined
  readonly #onEnd: (() => void) | undefined
  readonly #signal: AbortSignal | undefined
  readonly #abort = (): void => this.end()

  /** `onEnd` runs once, however the queue ends, also when `signal` had fired before: the place to unsubscribe. */
  constructor(options: { readonly signal?: AbortSignal | undefined; readonly onEnd?: (() => void) | undefined } = {}) {
    this.#onEnd = options.onEnd
    this.#signal = options.signal
    if (options.signal?.aborted === true) {
      this.#ended = true
      // Not before the caller has the queue in hand, which `onEnd` may well refer to.
      if (this.#onEnd !== undefined) queueMicrotask(this.#onEnd)
    } else options.signal?.addEventListener('abort', this.#abort, { once: true })
  }

  /** Number of items nobody has read yet. */
  get pending(): number {
    return this.#items.length - this.#head
  }

  /** Ignored after the end. */
  push(item: T): void {
    if (this.#ended) return
    const reader = this.#readers.shift()
    if (reader === undefined) this.#items.push(item)
    else reader.resolve({ value: item, done: false })
  }

  /** Drops what nobody has read; for a resync that makes it obsolete. */
  clear(): void {
    this.#items = []
    this.#head = 0
  }

  fail(error: unknown): void {
    if (this.#ended) return
    this.#failure = { error }
    this.#close()
  }

  /** Ends after what was pushed has been read. */
  finish(): void {
    if (!this.#ended) this.#close()
  }

  /** Ends now. What nobody has read is dropped, also after `finish()` or `fail()`, since the reader has gone. */
  end(): void {
    this.clear()
    this.#failure = undefined
    if (!this.#ended) this.#close()
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#head < this.#items.length) return Promise.resolve({ value: this.#take(), done: false })
    if (this.#failure !== undefined) return Promise.reject(this.#takeFailure())
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject })
    })
  }

  return(): Promise<IteratorResult<T>> {
    this.end()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #take(): T {
    const value = this.#items[this.#head] as T
    // The slot is cleared so that a long queue does not keep what was read alive.
    this.#items[this.#head] = undefined as T
    this.#head += 1
    if (this.#head === this.#items.length) this.clear()
    else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return value
  }

  /** Thrown once; after that the queue is simply over. */
  #takeFailure(): unknown {
    const error = this.#failure?.error
    this.#failure = undefined
    return error
  }

  #close(): void {
    this.#ended = true
    this.#signal?.removeEventListener('abort', this.#abort)
    const readers = this.#readers.splice(0)
    for (const reader of readers) {
      if (this.#failure === undefined) reader.resolve({ value: undefined, done: true })
      else reader.reject(this.#takeFailure())
    }
    this.#onEnd?.()
  }
}
