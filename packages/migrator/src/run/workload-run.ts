import type { AbortOptions, Checkpointable, ComputeTarget, TransferProgress } from '@egpu/core'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import type { PlacementConstraints } from '../placement/constraints.ts'

/** What a workload is doing at the moment, as its migrator sees it. */
export const RunState = {
  /** On the way to its first target. */
  Placing: 'placing',
  Running: 'running',
  /** Between two targets. */
  Moving: 'moving',
  /** No target can take it now; its checkpoints wait for one that can. */
  Parked: 'parked',
  Finished: 'finished',
  /** The work itself failed; its checkpoints are kept. */
  Failed: 'failed',
  Closed: 'closed',
} as const
export type RunState = (typeof RunState)[keyof typeof RunState]

export interface RunOptions extends AbortOptions {
  /** The larger goes first where migrations have to queue. Default 0. */
  readonly priority?: number | undefined
  /**
   * Keep the checkpoints of finished work, so that little is computed again should the process die before its result is
   * stored: a later run then goes on from the last of them. None is taken at the end, where `finished` has resolved:
   * what was computed since the last one is computed again, unless the workload calls `checkpoint()` of its run before it
   * resolves. Remove them with `migrator.checkpoints.forget(id)`. Default false: they are removed once `finished` has
   * resolved. Work that is closed or aborted is saved a last time and keeps its checkpoints either way.
   */
  readonly keepCheckpoints?: boolean | undefined
  /** Id of the target to begin on, if it can take the work. */
  readonly startOn?: string | undefined
  /** Where it may run, besides the migrator's own constraints. Work that no allowed target can take is parked. */
  readonly constraints?: PlacementConstraints | undefined
}

/** A workload in the care of a migrator. */
export interface WorkloadRun extends AsyncDisposable {
  readonly workload: Checkpointable
  readonly state: RunState
  /** Where it runs; `undefined` while it is between targets, parked or over. */
  readonly where: ComputeTarget | undefined
  /** How far its state is on the way to another target, while it is moved and bytes are counted. */
  readonly transfer: TransferProgress | undefined
  /** Newest checkpoint it could be restored from. */
  readonly latestCheckpoint: CheckpointRecord | undefined
  /**
   * Resolves when all work is done. Rejects with `EGPU_WORKLOAD_FAILED` when the work itself failed, with
   * `EGPU_CLOSED` when the run was closed first, with the abort reason of the run's `signal`. Not for a lost device.
   */
  readonly finished: Promise<void>
  /**
   * Resolves when it works on a target for the first time; rejects like `finished`, and with `EGPU_CHECKPOINT_FAILED`
   * once its store keeps it from beginning: another migrator uses it, as the message says with its process and host, or it
   * cannot be read. The run is not over then: it is parked and begins as soon as the store lets it, with `finished` for
   * its end. `close` gives up. For work that merely finds no target yet, this stays pending.
   */
  readonly started: Promise<ComputeTarget>
  /** Takes a checkpoint of the work as it is now or later; resolves once it is committed. */
  checkpoint(options?: AbortOptions): Promise<CheckpointRecord>
  /**
   * Moves the work to a target. Rejects with `EGPU_NO_TARGET` or `EGPU_MIGRATION_FAILED` when it could not go there, with
   * a `TypeError` for what is no id; it then works on where it is, or elsewhere.
   */
  moveTo(targetId: string, options?: AbortOptions): Promise<ComputeTarget>
  /** Stops after a last checkpoint, so that a later run of the same workload goes on from it. Twice is fine. */
  close(): Promise<void>
}
