import type { ComputeTarget } from '@egpu/core'
import type { Attempt, AttemptCause } from './attempt.ts'
import type { Move } from './moves.ts'
import type { Work } from './work.ts'

/** Why a workload has to be placed, and what was done about it already. */
export interface Cause extends AttemptCause {
  readonly move?: Move | undefined
  /** A target that is open already. */
  attempt?: Attempt | undefined
  /** Gives back the right to migrate, where it is held already. */
  slot?: (() => void) | undefined
}

/** The cause of a search that begins now, of work as far as it has come. */
export function causeOf({ workload }: Work, reason: Cause['reason'], since: number, from?: ComputeTarget): Cause {
  return { reason, from, since, progress: workload.progress }
}
