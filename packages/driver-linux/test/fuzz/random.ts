/** Reproducible randomness: the same seed gives the same run. */
export interface Random {
  /** A whole number from 0 up to, and without, `limit`. */
  below(limit: number): number
}

/** xorshift32 of George Marsaglia, "Xorshift RNGs", 2003. */
export function seeded(seed: number): Random {
  let state = seed | 1
  return {
    below(limit) {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return (state >>> 0) % limit
    },
  }
}
