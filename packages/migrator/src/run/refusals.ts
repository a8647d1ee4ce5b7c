import type { ComputeTarget } from '@egpu/core'

const firstMs = 1_000
const mostMs = 60_000

/** A workload that failed so often on a target, by its own fault, will fail there for good. */
const hopelessAfter = 3

interface Refusal {
  count: number
  faults: number
  untilMs: number
  reason: string
}

/**
 * The targets that one workload is not to go to: those it may not use, and those that just failed it, which are left alone
 * for a time that doubles with every further failure.
 */
export class Refusals {
  /** Why a target is out of the question for good. */
  readonly forbidden: (target: ComputeTarget) => string | undefined
  readonly #refusals = new Map<string, Refusal>()

  constructor(forbidden: (target: ComputeTarget) => string | undefined) {
    this.forbidden = forbidden
  }

  /** `ownFault`: it was the workload that broke, not the target. */
  note(targetId: string, atMs: number, reason: string, ownFault: boolean): void {
    const { count, faults } = this.#refusals.get(targetId) ?? { count: 0, faults: 0 }
    const waitMs = Math.min(mostMs, firstMs * 2 ** count)
    this.#refusals.set(targetId, {
      count: count + 1,
      faults: faults + (ownFault ? 1 : 0),
      untilMs: atMs + waitMs,
      reason,
    })
  }

  /** Why the target is not to be tried now. */
  reason(target: ComputeTarget, atMs: number): string | undefined {
    const reason = this.forbidden(target)
    if (reason !== undefined) return reason
    const refusal = this.#refusals.get(target.id)
    return refusal !== undefined && refusal.untilMs > atMs ? `failed a moment ago: ${refusal.reason}` : undefined
  }

  /** When the first of them may be tried again; Infinity when none waits. */
  nextAt(atMs: number): number {
    return Math.min(...[...this.#refusals.values()].map(({ untilMs }) => (untilMs > atMs ? untilMs : Infinity)))
  }

  isHopeless(targetId: string): boolean {
    return (this.#refusals.get(targetId)?.faults ?? 0) >= hopelessAfter
  }

  clear(targetId: string): void {
    this.#refusals.delete(targetId)
  }
}
