/**
 * Chance of another fault within a day after one (within 7 days: 0.262), over 584 faults of 400 nodes in 349 days
 * (InfiniteHBD-Trace, SIGCOMM 2025, stepfun-ai/InfiniteHBD-Trace).
 */
const againWithinDay = 0.144

const dayMs = 86_400_000

/** One exponential has both when it fades by a factor of e in 1.25 days: (1 − x⁷) / (1 − x) = 0.262 / 0.144, x = 0.45. */
const fadeMs = 1.25 * dayMs

/** What past faults say about the next: little on their own, but they lend weight to everything else. */
export class FaultHistory {
  #faultsAtMs: number[] = []

  fault(atMs: number): void {
    this.#faultsAtMs = [...this.#faultsAtMs.filter((past) => atMs - past < 30 * dayMs), atMs].slice(-50)
  }

  /** Chance of a fault within the next day, by the faults of the last 30. */
  prior(nowMs: number): number {
    let spared = 1
    for (const atMs of this.#faultsAtMs) spared *= 1 - againWithinDay * Math.exp(-Math.max(0, nowMs - atMs) / fadeMs)
    return 1 - spared
  }
}
