import type { AttemptCause } from './attempt.ts'
import type { Attempt } from './attempt.ts'
import type { Move } from './moves.ts'

/** Why a workload has to be placed, and what was done about it already. */
export interface Cause extends AttemptCause {
  readonly move?: Move | undefined
  /** A target that is open already. */
  attempt?: Attempt | undefined
  /** Gives back the right to migrate, where it is held already. */
  slot?: (() => void) | undefined
}
