/** The last options bag of every call that waits: abort `signal` and the call rejects with `signal.reason`. */
export interface AbortOptions {
  readonly signal?: AbortSignal | undefined
}

/** Settles like `work`, or rejects with the abort reason as soon as `signal` fires; `work` itself is abandoned. */
export function abandonable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
