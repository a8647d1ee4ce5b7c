import type { MigrationPolicy, Offer } from '../strategy.ts'
import { eager } from './eager.ts'

/** A gain below this share of what is left is within what an estimate may be wrong by. */
const leastGain = 0.2

/** Moves work to where it is done sooner, when what that gains beats the move; and away from trouble at once. */
export const loadBalanced: MigrationPolicy = {
  name: 'load-balanced',
  onWarning: (warning, workload) => eager.onWarning(warning, workload),
  reviewEveryMs: 10_000,
  review: (here, others) => {
    const [best] = [...others].sort((a, b) => doneAt(a) - doneAt(b))
    if (best === undefined) return undefined
    return doneAt(best) < here.finishMs * (1 - leastGain) ? best.target.id : undefined
  },
}

function doneAt({ finishMs, moveMs }: Offer): number {
  return finishMs + moveMs
}
