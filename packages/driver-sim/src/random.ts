/** Numbers that look random and are the same for the same seed on every machine. */
export interface Random {
  /** From 0 up to, not including, 1. */
  next(): number
  /** A whole number from 0 up to, not including, `below`. */
  integer(below: number): number
  /** From `low` up to, not including, `high`. */
  between(low: number, high: number): number
  /** One of `items`; `TypeError` when there are none. */
  pick<T>(items: readonly T[]): T
  /** `digits` hexadecimal digits. */
  hex(digits: number): string
}

/** Starts a sequence. The generator is sfc32 (PractRand, public domain): fast, 128 bits of state, passes PractRand. */
export function seededRandom(seed: number): Random {
  if (!Number.isSafeInteger(seed)) throw new TypeError(`a seed is a whole number, not ${String(seed)}`)
  let a = seed | 0
  let b = Math.floor(seed / 2 ** 32) | 0
  let c = 0x9e3779b9 | 0
  let counter = 1

  const draw = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    c |= 0
    return sum >>> 0
  }
  // Neighbouring seeds differ in a few bits only; sfc32 needs about a dozen rounds to spread them over its state.
  for (let round = 0; round < 15; round += 1) draw()

  const next = (): number => draw() / 2 ** 32
  const integer = (below: number): number => {
    if (!Number.isSafeInteger(below) || below < 1) throw new TypeError(`below is a whole number ≥ 1, not ${below}`)
    return Math.floor(next() * below)
  }
  return {
    next,
    integer,
    between: (low, high) => low + next() * (high - low),
    pick: <T>(items: readonly T[]): T => {
      if (items.length === 0) throw new TypeError('there is nothing to pick from')
      return items[integer(items.length)] as T
    },
    hex: (digits) => Array.from({ length: digits }, () => integer(16).toString(16)).join(''),
  }
}
