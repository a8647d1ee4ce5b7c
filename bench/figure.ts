/** One measured number. `bench` is added by the runner. */
export interface Figure {
  readonly figure: string
  readonly value: number
  readonly unit: string
  /** What it was measured against in the same run: the limit or the rival. */
  readonly against?: string | undefined
  /** `value` over what it was measured against. */
  readonly ratio?: number | undefined
  /** What we want, in words: `<= 3 x`. */
  readonly bar?: string | undefined
  readonly pass?: boolean | undefined
}

/** The value that `share` (0 to 1) of the samples do not exceed. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) throw new RangeError('percentile of no samples')
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number
}
