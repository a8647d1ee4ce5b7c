/** Keeps Node alive while the application waits for something: a recovery has pauses in which nothing else would. */
export class KeepAlive {
  #count = 0
  #timer: ReturnType<typeof setInterval> | undefined

  async during<T>(work: Promise<T>): Promise<T> {
    this.#count += 1
    this.#timer ??= setInterval(() => {}, 2 ** 30)
    try {
      return await work
    } finally {
      this.#count -= 1
      if (this.#count === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }
}
