/** A promise and the two ways to settle it. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(reason: unknown): void
}

export function deferred<T>(): Deferred<T> {
  let settle: Pick<Deferred<T>, 'resolve' | 'reject'> | undefined
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  return { promise, ...(settle as Pick<Deferred<T>, 'resolve' | 'reject'>) }
}

/** For a promise that nobody may be looking at: its rejection is no surprise then. */
export function quiet(promise: Promise<unknown>): void {
  promise.catch(() => undefined)
}
