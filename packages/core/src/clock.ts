import type { AbortOptions } from './abort.ts'

/**
 * Where time comes from. Everything that waits takes one, so a simulator can run hours in milliseconds and a test
 * never depends on how busy the machine is.
 */
export interface Clock {
  /** Milliseconds that never go backwards; the zero point has no meaning. */
  now(): number
  /**
   * Resolves after `ms`; rejects with the abort reason if `signal` fires first. Less than 0 counts as 0, `Infinity` sleeps
   * until the abort, NaN rejects with `TypeError`. Keeps the process alive while pending.
   */
  sleep(ms: number, options?: AbortOptions): Promise<void>
}

/** The longest a timer can run; `setTimeout` takes anything above for 1 ms. */
const longestTimerMs = 2 ** 31 - 1

/** Real time, from `performance.now()`. */
export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, { signal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      if (Number.isNaN(ms)) throw new TypeError('cannot sleep for NaN milliseconds')
      const abort = (): void => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      let restMs = ms
      const arm = (): ReturnType<typeof setTimeout> => {
        const legMs = Math.min(restMs, longestTimerMs)
        restMs -= legMs
        return setTimeout(() => {
          if (restMs > 0) {
            timer = arm()
            return
          }
          signal?.removeEventListener('abort', abort)
          resolve()
        }, legMs)
      }
      let timer = arm()
      signal?.addEventListener('abort', abort, { once: true })
    }),
}
