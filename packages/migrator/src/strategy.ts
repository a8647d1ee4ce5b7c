import type { ComputeTarget, EGpuDevice } from '@egpu/core'
import type { Forecast } from './predictor/failure-predictor.ts'
import { eager } from './strategies/eager.ts'
import { lazy } from './strategies/lazy.ts'
import { loadBalanced } from './strategies/load-balanced.ts'
import { preemptive } from './strategies/preemptive.ts'

/** A sign that a device may not stay. The loss itself is no warning: work on a lost device always moves. */
export interface Warning {
  /** `predicted`: what its drivers read of it looks like what comes before a failure. */
  readonly kind: 'leaving' | 'degraded' | 'critical' | 'link-downgraded' | 'predicted'
  readonly device: EGpuDevice
  readonly reason: string
  /** What is expected of the device, where anything could be read. */
  readonly forecast?: Forecast | undefined
}

/** What a strategy is told about a workload. Times are in milliseconds; what was never seen is `undefined`. */
export interface WorkloadView {
  readonly id: string
  readonly priority: number
  readonly where: ComputeTarget | undefined
  readonly progress: number
  /** Progress of its newest committed checkpoint. */
  readonly savedProgress: number | undefined
  /** Since that checkpoint was taken. */
  readonly unsavedMs?: number | undefined
  /** Time between two checkpoints at present. */
  readonly intervalMs: number
  /** How long the last checkpoint made the work stand still, and how long it took in all. */
  readonly pauseMs?: number | undefined
  readonly saveMs?: number | undefined
  /** How long the last move made the work stand still. */
  readonly moveMs?: number | undefined
  /** How much longer it would take on the best other target; Infinity where there is none. */
  readonly slowdownElsewhere: number
}

/** What to do about a warning: move the work away now, save it now, save it more often, or leave it as it is. */
export type WarningAnswer = 'move' | 'checkpoint' | 'shorten' | 'wait'

/** A place for the rest of a workload. */
export interface Offer {
  readonly target: ComputeTarget
  /** When it is expected to be done there; of the place where it is now, if it stays. */
  readonly finishMs: number
  /** What the move costs first; 0 for the place where it is. */
  readonly moveMs: number
}

/**
 * When work moves, and optionally where to. Write your own by implementing this; one that throws is treated as if it
 * had answered `wait` or chosen nothing.
 */
export interface MigrationPolicy {
  readonly name: string
  onWarning(warning: Warning, workload: WorkloadView): WarningAnswer
  /**
   * The id of one of `candidates`, which can all take the workload and come best first; `undefined` leaves it to the
   * planner. An id that is not there is reported as `migration-failed` with `EGPU_NO_TARGET`, and the planner decides.
   */
  choose?(candidates: readonly ComputeTarget[], workload: WorkloadView): string | undefined
  /** How often `review` is asked of a workload that is well where it is. Default 10,000. */
  readonly reviewEveryMs?: number | undefined
  /** The id of the target that is worth a move, if one is. */
  review?(here: Offer, others: readonly Offer[], workload: WorkloadView): string | undefined
}

/** Ready-made policies for `strategy`. */
export const MigrationStrategy: {
  /** Moves at the first sign of trouble. */
  readonly Eager: MigrationPolicy
  /** Moves only once a device has failed; a warning makes it take a checkpoint. */
  readonly Lazy: MigrationPolicy
  /** Answers a warning with what is expected to cost least: save more often, save now, or move. */
  readonly Preemptive: MigrationPolicy
  /** As Eager, and moves work to where it is done sooner when that gains more than it costs. */
  readonly LoadBalanced: MigrationPolicy
} = { Eager: eager, Lazy: lazy, Preemptive: preemptive, LoadBalanced: loadBalanced }
