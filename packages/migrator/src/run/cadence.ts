/** Before a device has a history it counts as one that is lost once in eight hours. */
const assumedMtbfMs = 8 * 3_600_000

/** That assumption weighs as much as a tenth of an observed loss. */
const assumptionWeight = 0.1

/** Until the first checkpoint has shown what one costs. */
const firstIntervalMs = 1_000

/** More often gains nothing that a person would notice, less often loses what one would. */
const leastIntervalMs = 50
const mostIntervalMs = 60_000

/** How much a new measurement counts against the ones before it. */
const newest = 0.3

/** What a checkpoint cost. */
export interface SaveCost {
  /** The work stood still for so long. */
  readonly pauseMs: number
  /** From the freeze until it was committed. */
  readonly totalMs: number
}

export interface CadenceQuestion {
  /** What one checkpoint costs the work. */
  readonly costMs: number
  /** How long one occupies the link. */
  readonly totalMs: number
  /** Losses seen, and in how long. */
  readonly losses: number
  readonly observedMs: number
  /** Share of the time that checkpoints may cost. */
  readonly ceiling: number
}

/**
 * How long to work between two checkpoints: Young's √(2 · cost · mean time between losses) (CACM 17(9), 1974), which
 * Daly refined for costs near the MTBF, never so often that the ceiling on overhead is broken or the link is saving for
 * more than half of the time.
 */
export function checkpointInterval({ costMs, totalMs, losses, observedMs, ceiling }: CadenceQuestion): number {
  const mtbfMs = (assumptionWeight * assumedMtbfMs + observedMs) / (assumptionWeight + losses)
  const young = Math.sqrt(2 * costMs * mtbfMs)
  const wanted = Math.min(mostIntervalMs, Math.max(leastIntervalMs, young))
  return Math.max(wanted, costMs / ceiling, 2 * totalMs)
}

/** One workload's interval, from what its checkpoints cost so far. */
export class Cadence {
  readonly #ceiling: number
  readonly #fixedMs: number | undefined
  #cost: { readonly costMs: number; readonly totalMs: number } | undefined

  /** `fixedMs`: the user knows better. */
  constructor(ceiling: number, fixedMs: number | undefined) {
    this.#ceiling = ceiling
    this.#fixedMs = fixedMs
  }

  /** `sharesProcessor`: draining takes time from the work itself, as it does on the CPU. */
  observe({ pauseMs, totalMs }: SaveCost, sharesProcessor: boolean): void {
    const costMs = sharesProcessor ? totalMs : pauseMs
    const before = this.#cost
    this.#cost = {
      costMs: before === undefined ? costMs : before.costMs + newest * (costMs - before.costMs),
      totalMs: before === undefined ? totalMs : before.totalMs + newest * (totalMs - before.totalMs),
    }
  }

  intervalMs(losses: number, observedMs: number): number {
    if (this.#fixedMs !== undefined) return this.#fixedMs
    if (this.#cost === undefined) return firstIntervalMs
    return checkpointInterval({ ...this.#cost, losses, observedMs, ceiling: this.#ceiling })
  }
}
