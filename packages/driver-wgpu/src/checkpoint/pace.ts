import { systemClock } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'

/**
 * How fast state may cross the cable, in bytes per second. A function is asked before every piece, so that somebody who
 * watches the link can slow a copy down while it runs; 0 holds it until there is more, `undefined` is no limit.
 */
export type BytesPerSecond = number | (() => number | undefined)

/** How often a held copy asks whether it may go on. */
export const askAgainMs = 50

/** Whether copies are held just now. */
export function isHeld(bytesPerSecond: BytesPerSecond | undefined): boolean {
  return typeof bytesPerSecond === 'function' && bytesPerSecond() === 0
}

/**
 * Spreads copies over time. Long transfers at full rate are what makes a weak cable fail, and they take the link from
 * the work itself.
 */
export class Pace {
  readonly #rate: () => number | undefined
  #freeAt = 0

  constructor(bytesPerSecond: BytesPerSecond | undefined) {
    if (typeof bytesPerSecond === 'number' && !(bytesPerSecond > 0)) {
      throw new TypeError(`bytesPerSecond must be a number above 0, not ${bytesPerSecond}`)
    }
    this.#rate = typeof bytesPerSecond === 'function' ? bytesPerSecond : () => bytesPerSecond
  }

  /** Waits until `bytes` more may be moved. */
  async take(bytes: number, { signal }: AbortOptions): Promise<void> {
    for (;;) {
      signal?.throwIfAborted()
      const rate = this.#rate()
      if (rate === undefined || rate === Infinity) return
      const now = systemClock.now()
      if (rate > 0) {
        const begin = Math.max(now, this.#freeAt)
        this.#freeAt = begin + (bytes / rate) * 1000
        if (begin > now) await systemClock.sleep(begin - now, { signal })
        return
      }
      await systemClock.sleep(askAgainMs, { signal })
    }
  }
}
