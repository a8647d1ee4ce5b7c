/**
 * A signal that fires when the time is up, with a `TimeoutError`, or with the caller's own. In Node 20 a timeout that nobody
 * but `AbortSignal.any` knows of is collected as garbage before it fires, and what it was to end waits for ever
 * (https://github.com/nodejs/node/issues/57736); one that is listened to stays.
 */
export function within(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(ms)
  if (signal === undefined) return timeout
  timeout.addEventListener('abort', () => undefined, { once: true })
  return AbortSignal.any([timeout, signal])
}
