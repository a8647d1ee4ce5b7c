import type { AbortOptions, Checkpointable } from '@egpu/core'
import type { CheckpointRecord, WorkloadRun } from '@egpu/migrator'
import type { Tenure } from '../ownership/coordinator.ts'

/** How a run ended on this host. */
export type RunEnd =
  | { readonly kind: 'done' }
  /** It runs on there. */
  | { readonly kind: 'handed-over'; readonly peerId: string }

export interface Handover {
  readonly peerId: string
  /** The peer's target it runs on. */
  readonly targetId: string
  /** Progress it went on from. */
  readonly progress: number
}

/** A workload that this host owns and runs, and that another host can take on. */
export interface RemoteRun extends AsyncDisposable {
  readonly kind: string
  readonly workload: Checkpointable
  /** The run on this host's own devices; another one after a hand-over that failed. */
  readonly run: WorkloadRun
  readonly tenure: Tenure
  /** Newest checkpoint that the standby host has. */
  readonly replicated: CheckpointRecord | undefined
  /**
   * Resolves when it is over on this host. Rejects like `WorkloadRun.finished`, and with `EGPU_STALE_EPOCH` when this host no
   * longer owns it.
   */
  readonly ended: Promise<RunEnd>
  /**
   * Sends every new checkpoint to the peer from now on, so that this host's death loses at most what came after the last one.
   * Resolves when the peer has the newest there is, which is taken if there is none. Rejects with `EGPU_TARGET_INCOMPATIBLE` when the peer could not run it.
   */
  standBy(peerId: string, options?: AbortOptions): Promise<void>
  /**
   * Hands the work over to a peer; needs no eGPU here and nobody's vote. Before anything moves the peer is asked whether it fits:
   * `EGPU_TARGET_INCOMPATIBLE` says why not. Rejects with `EGPU_MIGRATION_FAILED` when the peer could not go on with it; it
   * then runs on here, unless the message says that the peer may have it.
   */
  moveToPeer(peerId: string, options?: AbortOptions): Promise<Handover>
  /** Stops after a last checkpoint and gives the ownership up. Twice is fine. */
  close(): Promise<void>
}
