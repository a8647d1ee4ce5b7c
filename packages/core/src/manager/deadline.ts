import type { Clock } from '../clock.ts'

export interface Deadline {
  readonly ms: number
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
  /** What a late `work` is answered with. */
  readonly late: () => Error
}

/**
 * Settles like `work`; after `ms` it rejects with `late()`, on abort with the abort reason. Either way `work` is told
 * through its signal and then abandoned, since a call into a driver may hang for good.
 */
export async function withDeadline<T>(work: (signal: AbortSignal) => Promise<T>, deadline: Deadline): Promise<T> {
  const { ms, clock, signal, late } = deadline
  signal?.throwIfAborted()
  const working = new AbortController()
  const timing = new AbortController()
  let cutOff: (reason: unknown) => void = () => undefined
  const cut = new Promise<never>((_, reject) => {
    cutOff = reject
  })
  const stop = (reason: unknown): void => {
    cutOff(reason)
    working.abort(reason)
  }
  const abort = (): void => stop(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  clock.sleep(ms, { signal: timing.signal }).then(
    () => stop(late()),
    () => undefined,
  )
  try {
    return await Promise.race([call(work, working.signal), cut])
  } finally {
    signal?.removeEventListener('abort', abort)
    timing.abort()
  }
}

/** A driver that throws instead of rejecting is answered the same way. */
async function call<T>(work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  return await work(signal)
}
