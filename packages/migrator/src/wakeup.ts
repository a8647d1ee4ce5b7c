import type { Clock } from '@egpu/core'
import { noLonger } from './deadline.ts'

/** Lets one loop sleep until something happened or until a time has come. A call while it is awake is not lost. */
export class Wakeup {
  readonly #clock: Clock
  #pending = false
  #sleeper: AbortController | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  notify(): void {
    this.#pending = true
    this.#sleeper?.abort(noLonger)
  }

  /** Resolves at the next `notify()`, at once if there was one since the last wait, or after `ms`. */
  async wait(ms: number = Infinity): Promise<void> {
    if (!this.#pending) {
      const sleeper = new AbortController()
      this.#sleeper = sleeper
      if (ms < Infinity) await this.#clock.sleep(Math.max(0, ms), { signal: sleeper.signal }).catch(() => undefined)
      else
        await new Promise<void>((resolve) => sleeper.signal.addEventListener('abort', () => resolve(), { once: true }))
      this.#sleeper = undefined
    }
    this.#pending = false
  }
}
