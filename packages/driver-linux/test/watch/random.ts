/** Repeatable randomness for fuzzing: the seed in a failing test's name is enough to see it again. */
export function random(seed: number): {
  readonly below: (limit: number) => number
  readonly mutate: (bytes: Uint8Array) => Uint8Array
} {
  let state = seed >>> 0
  /** mulberry32 (public domain, Tommy Ettinger). */
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
  const mutate = (bytes: Uint8Array): Uint8Array => {
    let out = bytes.slice()
    for (let change = below(4) + 1; change > 0; change--) {
      const at = below(out.length + 1)
      const kind = below(5)
      if (kind === 0) out[at % Math.max(out.length, 1)] = below(256)
      else if (kind === 1) out = out.slice(0, at)
      else if (kind === 2) out = Uint8Array.from([...out.subarray(0, at), below(256), ...out.subarray(at)])
      else if (kind === 3) out = Uint8Array.from([...out.subarray(0, at), ...out.subarray(below(out.length + 1))])
      else if (out.length > 0) out[at % out.length] = [0, 10, 0x3d, 0x40, 0xff][below(5)] as number
    }
    return out
  }
  return { below, mutate }
}
