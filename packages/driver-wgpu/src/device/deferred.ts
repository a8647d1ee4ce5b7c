/** A promise and its ends; `Promise.withResolvers` came with Node 22. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: unknown): void
}

export function deferred<T>(): Deferred<T> {
  let ends: Pick<Deferred<T>, 'resolve' | 'reject'> | undefined
  const promise = new Promise<T>((resolve, reject) => (ends = { resolve, reject }))
  return { promise, ...(ends as unknown as Pick<Deferred<T>, 'resolve' | 'reject'>) }
}
