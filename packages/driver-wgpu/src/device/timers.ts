/** A repeating or single timer that does not keep Node alive; browsers have no such notion. */
export function laterQuietly(ms: number, action: () => void): { cancel(): void } {
  const timer: unknown = setTimeout(action, ms)
  if (typeof timer === 'object' && timer !== null) (timer as { unref?(): void }).unref?.()
  return { cancel: () => clearTimeout(timer as ReturnType<typeof setTimeout>) }
}
