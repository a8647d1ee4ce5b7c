import type { AbortOptions } from './abort.ts'

/**
 * Where time comes from. Everything that waits takes one, so a simulator can run hours in milliseconds and a test
 * never depends on how busy the machine is.
 */
export interface Clock {
  /** Milliseconds that never go backwards; the zero point has no meaning. */
  now(): number
  /** Resolves after `ms`; rejects with the abort reason if `signal` fires first. Keeps the process alive while pending. */
  sleep(ms: number, options?: AbortOptions): Promise<void>
}

/** Real time, from `performance.now()`. */
export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, { signal } = {}) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      const abort = (): void => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', abort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', abort, { once: true })
    }),
}
