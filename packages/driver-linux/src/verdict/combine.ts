import type { Evidence } from '@egpu/core'

/** How strongly all evidence together speaks for each side, 0 to 1; the rest is not known. */
export interface Belief {
  readonly external: number
  readonly internal: number
}

/**
 * Dempster's rule for evidence that each supports one side with its weight and leaves the rest open: agreeing evidence
 * adds up without reaching certainty, contradicting evidence takes from both.
 */
export function combine(evidence: readonly Evidence[]): Belief {
  const external = support(evidence, 'external')
  const internal = support(evidence, 'internal')
  const conflict = external * internal
  if (conflict >= 1) return { external: 0, internal: 0 }
  return {
    external: (external * (1 - internal)) / (1 - conflict),
    internal: (internal * (1 - external)) / (1 - conflict),
  }
}

function support(evidence: readonly Evidence[], side: Evidence['points']): number {
  return 1 - evidence.reduce((doubt, { points, weight }) => (points === side ? doubt * (1 - weight) : doubt), 1)
}
