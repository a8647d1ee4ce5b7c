import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock } from '@egpu/core'

/** Ends a sleep that nobody waits for any more. Made once: an abort without a reason makes an error with a stack each time. */
export const noLonger: unknown = new Error('nobody waits any more')

export interface Deadline<T> {
  readonly clock: Clock
  /** How long the work may take; `Infinity` for as long as `signal` lets it. */
  readonly ms: number
  /** Abandons the work and rejects with its reason. */
  readonly signal?: AbortSignal | undefined
  /** What is waited for, for the error's sentence: `freeze of field-1`. */
  readonly what: string
  /** Gets what abandoned work delivers after all: the place to close it. */
  readonly onLate?: ((value: T) => void) | undefined
}

/**
 * Waits for work that may never come back: a call into a device that was just pulled. When the time is up it rejects
 * with `EGPU_TIMEOUT`, when `signal` fires with its reason. Either way the work's own signal fires too, and whatever it
 * does from then on changes nothing here.
 */
export function withDeadline<T>(work: (signal: AbortSignal) => Promise<T>, deadline: Deadline<T>): Promise<T> {
  const { clock, ms, signal, what, onLate } = deadline
  if (signal?.aborted === true) return Promise.reject(signal.reason)
  return new Promise<T>((resolve, reject) => {
    const inner = new AbortController()
    const timer = new AbortController()
    let waiting = true
    const settle = (): boolean => {
      if (!waiting) return false
      waiting = false
      signal?.removeEventListener('abort', abandon)
      timer.abort(noLonger)
      return true
    }
    const give = (reason: unknown): void => {
      if (!settle()) return
      inner.abort(reason)
      reject(reason)
    }
    const abandon = (): void => give(signal?.reason)
    signal?.addEventListener('abort', abandon, { once: true })
    if (ms < Infinity) {
      clock.sleep(ms, { signal: timer.signal }).then(
        () => give(new EGpuError(EGpuErrorCode.Timeout, `${what} did not come back within ${ms} ms`)),
        () => undefined,
      )
    }
    start(work, inner.signal).then(
      (value) => (settle() ? resolve(value) : onLate?.(value)),
      (error: unknown) => settle() && reject(error),
    )
  })
}

/** A function that throws instead of rejecting is treated alike. */
async function start<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return work(signal)
}

/**
 * Sleeps until the time is up or one of the signals fires. Not `AbortSignal.any`: in Node 20 a signal that lives as long
 * as a device keeps a little of each one that was ever made from it.
 */
export async function sleepUnless(
  clock: Clock,
  ms: number,
  signals: readonly (AbortSignal | undefined)[],
): Promise<void> {
  if (signals.some((signal) => signal?.aborted === true)) return
  const timer = new AbortController()
  const wake = (): void => timer.abort(noLonger)
  for (const signal of signals) signal?.addEventListener('abort', wake, { once: true })
  await clock.sleep(ms, { signal: timer.signal }).catch(() => undefined)
  for (const signal of signals) signal?.removeEventListener('abort', wake)
}
