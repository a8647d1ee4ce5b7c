import { distance } from 'fastest-levenshtein'

/** ` (did you mean x?)` when one of the known words is near to what was typed; else nothing. */
export function didYouMean(typed: string, known: readonly string[]): string {
  const wanted = typed.toLowerCase()
  const rated = known
    .map((word) => ({ word, steps: word.toLowerCase().includes(wanted) ? 0 : distance(wanted, word.toLowerCase()) }))
    .sort((a, b) => a.steps - b.steps)
  const [best] = rated
  const isNear = best !== undefined && wanted !== '' && best.steps <= Math.max(best.word.length, wanted.length) / 2
  return isNear ? ` (did you mean ${best.word}?)` : ''
}
