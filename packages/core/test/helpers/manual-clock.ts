import type { AbortOptions } from '../../src/abort.ts'
import type { Clock } from '../../src/clock.ts'

interface Sleeper {
  readonly dueMs: number
  wake(): void
}

/** Time that passes when the test says so. */
export class ManualClock implements Clock {
  #now = 1_000
  readonly #sleepers = new Set<Sleeper>()

  now(): number {
    return this.#now
  }

  sleep(ms: number, { signal }: AbortOptions = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#sleepers.delete(sleeper)
        reject(signal?.reason)
      }
      const wake = (): void => {
        signal?.removeEventListener('abort', abort)
        this.#sleepers.delete(sleeper)
        resolve()
      }
      const sleeper: Sleeper = { dueMs: this.#now + ms, wake }
      if (signal?.aborted === true) reject(signal.reason)
      else {
        this.#sleepers.add(sleeper)
        signal?.addEventListener('abort', abort, { once: true })
      }
    })
  }

  /** Wakes everyone who is due, in order, letting each do its work before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const [next] = [...this.#sleepers].filter(({ dueMs }) => dueMs <= end).sort((a, b) => a.dueMs - b.dueMs)
      if (next === undefined) break
      this.#now = next.dueMs
      next.wake()
    }
    this.#now = end
    await settle()
  }
}

/** Lets everything that is ready run. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
