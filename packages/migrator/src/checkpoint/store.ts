import type { AbortOptions, EGpuError, SavedState, StatePart } from '@egpu/core'

/** A committed checkpoint, as its store lists it. */
export interface CheckpointRecord {
  readonly workloadId: string
  /** Rises with every commit of this workload and is never used twice. */
  readonly generation: number
  /** Units of work that had been done. */
  readonly progress: number
  readonly parts: readonly StatePart[]
  /** Sum over the parts. */
  readonly byteLength: number
  /** Wall-clock time of the commit, milliseconds since 1970. For people and for retention; order is `generation`'s. */
  readonly savedAtMs: number
}

/** A checkpoint that is there but cannot be used. */
export interface DamagedCheckpoint {
  readonly generation: number
  /** `EGPU_CHECKPOINT_CORRUPT`: torn, altered, copied in part, or of a newer format. */
  readonly error: EGpuError
}

/** What is known of a checkpoint before its bytes are. */
export interface CheckpointDraft {
  readonly workloadId: string
  /** From `acquire`. */
  readonly token: number
  readonly progress: number
  readonly parts: readonly StatePart[]
  /** Generation that most of the bytes may be taken over from; of no effect where it is gone. */
  readonly base?: number | undefined
}

/** Takes bytes over from an earlier checkpoint. */
export interface Carry {
  /** What can be taken over is counted in these, from the beginning of each part. */
  readonly unitBytes: number
  /**
   * The next `byteLength` bytes of the part are those that the base has at this place: whole units, or all up to the end
   * of the part. Resolves with how many were taken over; those after them, if any, have to be appended.
   */
  take(part: string, byteLength: number): Promise<number>
}

/** A checkpoint being written. Nothing of it can be seen before `commit` resolves, and nothing is left if it is dropped. */
export interface CheckpointWriter {
  /** Bytes of one part, in order, part by part. The caller may reuse `bytes` once it resolves. */
  append(part: string, bytes: Uint8Array, options?: AbortOptions): Promise<void>
  /** There where the draft named a base that can be used. */
  readonly carry?: Carry | undefined
  /**
   * Publishes durably, all or nothing. Rejects with `EGPU_STALE_EPOCH` when a newer token was acquired since, and with
   * `EGPU_CHECKPOINT_FAILED` when the bytes do not add up to the declared parts or could not be made durable.
   */
  commit(options?: AbortOptions): Promise<CheckpointRecord>
  /** Forgets all of it. Calling it twice, or after `commit`, is fine. */
  discard(): Promise<void>
}

/**
 * Where checkpoints live. Implementers: only committed checkpoints are ever listed or opened; an earlier generation is
 * never touched by writing a newer one; every call may be abandoned through its signal.
 */
export interface CheckpointStore extends AsyncDisposable {
  /** Workloads that have at least one committed checkpoint. */
  workloads(options?: AbortOptions): Promise<readonly string[]>
  /** Committed checkpoints of a workload, newest first; empty when there is none. */
  list(workloadId: string, options?: AbortOptions): Promise<readonly CheckpointRecord[]>
  /** Those that are there but were left out of `list`, newest first. For stores whose checkpoints can be damaged. */
  damaged?(workloadId: string, options?: AbortOptions): Promise<readonly DamagedCheckpoint[]>
  /**
   * Makes the caller the workload's only writer: hands out a token larger than any before, and from now on refuses
   * commits that carry an older one. So whoever was the writer and does not know that it is no longer can do no harm.
   */
  acquire(workloadId: string, options?: AbortOptions): Promise<number>
  /** Starts a checkpoint. Rejects with `EGPU_STALE_EPOCH` when the token is not the newest. */
  begin(draft: CheckpointDraft, options?: AbortOptions): Promise<CheckpointWriter>
  /**
   * Opens one for reading. Rejects with `EGPU_CHECKPOINT_NOT_FOUND` or `EGPU_CHECKPOINT_CORRUPT`; reading its parts
   * rejects with `EGPU_CHECKPOINT_CORRUPT` rather than give wrong bytes.
   */
  open(workloadId: string, generation: number, options?: AbortOptions): Promise<SavedState>
  /** Removes one; resolves also when it is not there. */
  remove(workloadId: string, generation: number, options?: AbortOptions): Promise<void>
  /** Calling it twice is fine. */
  close(): Promise<void>
}
