/** Does one thing at a time, in the order asked. */
export class Engine {
  #tail: Promise<unknown> = Promise.resolve()

  /** Settles like `work`, which starts once everything asked before, and `after`, have settled. */
  enqueue<T>(work: () => Promise<T>, after?: Promise<unknown>): Promise<T> {
    const done = Promise.allSettled([this.#tail, after]).then(work)
    this.#tail = done.catch(() => undefined)
    return done
  }

  /** Settles once everything asked so far has. */
  get idle(): Promise<unknown> {
    return this.#tail
  }
}
