/**
 * What a function of the user's answers at once; throws what it throws. A promise is no answer: waited for it would hold up
 * a rescue, and left alone its rejection would end the process.
 */
export function answerNow<T>(ask: () => T): T {
  const answer: unknown = ask()
  if (typeof (answer as PromiseLike<unknown> | null | undefined)?.then !== 'function') return answer as T
  Promise.resolve(answer as PromiseLike<unknown>).catch(() => undefined)
  throw new TypeError('it gave a promise where an answer is needed at once')
}
