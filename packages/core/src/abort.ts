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
    const stopWaiting = onceAborted(signal, abort)
    work.then(resolve, reject).finally(stopWaiting)
  })
}

const waiting = new WeakMap<AbortSignal, { readonly hearers: Set<() => void>; readonly tell: () => void }>()

/**
 * One listener for each signal, however many wait on it: Node warns of a leak from the eleventh on
 * (https://nodejs.org/api/events.html#eventssetmaxlistenersn-eventtargets).
 */
function onceAborted(signal: AbortSignal, hearer: () => void): () => void {
  let one = waiting.get(signal)
  if (one === undefined) {
    const hearers = new Set<() => void>()
    const tell = (): void => {
      for (const hear of hearers) hear()
    }
    one = { hearers, tell }
    waiting.set(signal, one)
    signal.addEventListener('abort', tell, { once: true })
  }
  const { hearers, tell } = one
  hearers.add(hearer)
  return () => {
    hearers.delete(hearer)
    if (hearers.size > 0 || waiting.get(signal)?.hearers !== hearers) return
    waiting.delete(signal)
    signal.removeEventListener('abort', tell)
  }
}
