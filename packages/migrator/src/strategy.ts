import type { ComputeTarget, EGpuDevice } from '@egpu/core'

/** A sign that a device may not stay. The loss itself is no warning: work on a lost device always moves. */
export interface Warning {
  readonly kind: 'leaving' | 'degraded' | 'critical' | 'link-downgraded'
  readonly device: EGpuDevice
  readonly reason: string
}

/** What a strategy is told about a workload. */
export interface WorkloadView {
  readonly id: string
  readonly priority: number
  readonly where: ComputeTarget | undefined
  readonly progress: number
  /** Progress of its newest committed checkpoint. */
  readonly savedProgress: number | undefined
}

/** What to do about a warning: move the work away now, take a checkpoint now, or leave it to the next one. */
export type WarningAnswer = 'move' | 'checkpoint' | 'wait'

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
}

/** Ready-made policies for `strategy`. */
export const MigrationStrategy: { readonly Eager: MigrationPolicy; readonly Lazy: MigrationPolicy } = {
  /** Moves at the first sign of trouble. */
  Eager: {
    name: 'eager',
    onWarning: ({ kind }) => (kind === 'link-downgraded' ? 'checkpoint' : 'move'),
  },
  /** Moves only once a device has failed; a warning makes it take a checkpoint. */
  Lazy: {
    name: 'lazy',
    onWarning: () => 'checkpoint',
  },
}
