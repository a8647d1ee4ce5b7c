/**
 * Turns pushes into an async iterable: what a driver's `watch()` returns. Holds everything that was pushed until it is
 * read, ends when `end()` is called or `signal` aborts, and throws what `fail()` was given after the rest was read.
 */
export class EventQueue<T> implements AsyncIterableIterator<T> {
  #items: T[] = []
  #head = 0
  #waiting: { resolve(result: IteratorResult<T>): void; reject(error: unknown): void } | undefined
  #ended = false
  #failure: { readonly error: unknown } | undefined
  readonly #onEnd: (() => void) | undefined
  readonly #signal: AbortSignal | undefined
  readonly #abort = (): void => this.end()

  /** `onEnd` runs once, however the queue ends: the place to unsubscribe. */
  constructor(options: { readonly signal?: AbortSignal | undefined; readonly onEnd?: (() => void) | undefined } = {}) {
    this.#onEnd = options.onEnd
    this.#signal = options.signal
    if (options.signal?.aborted === true) this.#ended = true
    else options.signal?.addEventListener('abort', this.#abort, { once: true })
  }

  /** Number of items nobody has read yet. */
  get pending(): number {
    return this.#items.length - this.#head
  }

  /** Ignored after the end. */
  push(item: T): void {
    if (this.#ended) return
    const waiting = this.#waiting
    if (waiting === undefined) {
      this.#items.push(item)
      return
    }
    this.#waiting = undefined
    waiting.resolve({ value: item, done: false })
  }

  /** Drops what nobody has read; for a resync that makes it obsolete. */
  clear(): void {
    this.#items = []
    this.#head = 0
  }

  fail(error: unknown): void {
    if (this.#ended) return
    this.#failure = { error }
    this.#finish()
  }

  end(): void {
    if (this.#ended) return
    this.clear()
    this.#finish()
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#head < this.#items.length) {
      const value = this.#items[this.#head] as T
      this.#head += 1
      if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
        this.#items = this.#items.slice(this.#head)
        this.#head = 0
      }
      return Promise.resolve({ value, done: false })
    }
    if (this.#failure !== undefined) {
      const { error } = this.#failure
      this.#failure = undefined
      return Promise.reject(error)
    }
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
    })
  }

  return(): Promise<IteratorResult<T>> {
    this.end()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #finish(): void {
    this.#ended = true
    this.#signal?.removeEventListener('abort', this.#abort)
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting !== undefined) {
      if (this.#failure === undefined) waiting.resolve({ value: undefined, done: true })
      else {
        const { error } = this.#failure
        this.#failure = undefined
        waiting.reject(error)
      }
    }
    this.#onEnd?.()
  }
}
