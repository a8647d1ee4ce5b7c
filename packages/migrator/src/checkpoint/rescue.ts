/** A workload that could still be saved before its device goes. */
export interface RescueCandidate {
  readonly id: string
  /** What a checkpoint of it would have to move. */
  readonly bytes: number
  /** Until the first byte comes: the rest of its unit of work, for one. Default 0. */
  readonly freezeMs?: number | undefined
  /** What is lost if it is not saved, in any one measure: milliseconds of work, times how much they matter. */
  readonly gain: number
}

export interface RescueLimits {
  /** Until the loss that is expected. */
  readonly withinMs: number
  readonly bytesPerSecond: number
}

/** Time is dealt out in so many slices. */
const slices = 1_000

/**
 * Whom to save, and in which order, when there is not the time for all: the set with the largest gain that fits, what
 * brings most per byte first, so that a loss that comes sooner costs least. A checkpoint counts only when it is whole.
 */
export function rescuePlan(
  candidates: readonly RescueCandidate[],
  { withinMs, bytesPerSecond }: RescueLimits,
): readonly string[] {
  if (!(withinMs > 0)) return []
  const timed = candidates
    .map(({ id, bytes, freezeMs = 0, gain }) => ({ id, gain, ms: freezeMs + (bytes / bytesPerSecond) * 1_000 }))
    .filter(({ ms, gain }) => gain > 0 && ms <= withinMs)
  const chosen = timed.reduce((sum, { ms }) => sum + ms, 0) <= withinMs ? timed : bestFit(timed, withinMs)
  return [...chosen].sort((a, b) => b.gain / Math.max(b.ms, 1e-9) - a.gain / Math.max(a.ms, 1e-9)).map(({ id }) => id)
}

interface Timed {
  readonly id: string
  readonly gain: number
  readonly ms: number
}

/** The 0/1 knapsack over slices of time, each candidate's time rounded up. */
function bestFit(candidates: readonly Timed[], withinMs: number): readonly Timed[] {
  const gains = new Float64Array(slices + 1)
  const taken = candidates.map(() => new Uint8Array(slices + 1))
  for (const [i, { gain, ms }] of candidates.entries()) {
    const cost = Math.ceil((ms / withinMs) * slices)
    for (let left = slices; left >= cost; left -= 1) {
      const withIt = (gains[left - cost] as number) + gain
      if (withIt <= (gains[left] as number)) continue
      gains[left] = withIt
      ;(taken[i] as Uint8Array)[left] = 1
    }
  }
  const chosen: Timed[] = []
  let left = slices
  for (let i = candidates.length - 1; i >= 0; i -= 1) {
    if (taken[i]?.[left] !== 1) continue
    const candidate = candidates[i] as Timed
    chosen.push(candidate)
    left -= Math.ceil((candidate.ms / withinMs) * slices)
  }
  return chosen
}
