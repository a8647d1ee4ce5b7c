/** Runs jobs one after another, in the order they came. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(job: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(job)
    this.#last = mine.catch(() => undefined)
    return mine
  }
}
