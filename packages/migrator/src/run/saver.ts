import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable, Clock, FrozenState, UnstampedEvent } from '@egpu/core'
import { Changes } from '../checkpoint/changes.ts'
import type { CheckpointManager, StoredState } from '../checkpoint/checkpoint-manager.ts'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import { withDeadline } from '../deadline.ts'
import { dispose } from '../dispose.ts'
import { asWorkloadFailure, messageOf, saysLost } from '../failure.ts'
import type { SaveCost } from './cadence.ts'
import type { Placement } from './placement.ts'
import type { Passage } from './saving-link.ts'
import type { SavingLinks } from './saving-links.ts'

/** So many freezes in a row that do not come back mean that the device hangs, whatever its driver says. */
const hungAfter = 2

/**
 * Each freeze that did not come back doubles how long the next may take, up to this: the unit of work may simply be
 * longer than the limit, and such work would otherwise be moved for ever and never be saved.
 */
const mostPatience = 64

export interface SaverOptions {
  readonly workload: Checkpointable
  readonly checkpoints: CheckpointManager
  readonly links: SavingLinks
  readonly clock: Clock
  /** Limit for `freeze`, for each next piece of the drain, and for calls into the store that are not about bytes. */
  readonly timeoutMs: number
  /** Limit for calls into the store that the move of the work waits for but does not need. */
  readonly graceMs: number
  readonly report: (event: UnstampedEvent) => void
}

export interface SaverSaveOptions {
  /** Default: the end of the stay. */
  readonly signal?: AbortSignal | undefined
  /** The work stands still for it, so it waits for no other and for no limit. */
  readonly isUrgent?: boolean | undefined
}

/** Takes the checkpoints of one workload, one at a time, and knows which of them can be restored. */
export class Saver {
  readonly #options: SaverOptions
  #token: number | undefined
  #saving: Promise<CheckpointRecord> | undefined
  #latest: CheckpointRecord | undefined
  readonly #corrupt = new Set<number>()
  #cost: SaveCost | undefined
  readonly #changes = new Changes()
  /** How the save under way gets over the link, and what is left of it to go. */
  #passage: Passage | undefined
  #dueBytes: number | undefined
  /** What the last save had to move. */
  #drainedBytes: number | undefined
  #hungFreezes = 0
  #patience = 1

  constructor(options: SaverOptions) {
    this.#options = options
  }

  /** What a save has to move over the link, of the one under way what is left; an estimate before there was one. */
  get dueBytes(): number {
    const { workload } = this.#options
    return this.#dueBytes ?? this.#drainedBytes ?? this.#latest?.byteLength ?? workload.needs.memoryBytes ?? 0
  }

  /** The save under way is waited for: it goes as fast as it can. */
  hurry(): void {
    this.#passage?.hurry()
  }

  /** The workload was restored: what it tells of changes begins anew. */
  restored(): void {
    this.#changes.forget()
    this.#drainedBytes = undefined
  }

  /** Takes a consistent copy that is not to be saved. */
  async freeze(placement: Placement, signal: AbortSignal): Promise<FrozenState> {
    const frozen = await this.#freeze(placement, signal)
    this.#changes.note(frozen)
    return frozen
  }

  /** The checkpoint that is being taken. */
  get saving(): Promise<CheckpointRecord> | undefined {
    return this.#saving
  }

  /** What the last checkpoint cost. */
  get cost(): SaveCost | undefined {
    return this.#cost
  }

  /** Newest checkpoint known to be committed. */
  get latest(): CheckpointRecord | undefined {
    return this.#latest
  }

  /**
   * Shuts out whoever wrote checkpoints of this workload before, an abandoned save of ours included. A store that
   * cannot answer now is asked again by the next save: moving the work is more urgent.
   */
  async takeOver(): Promise<void> {
    this.#token = undefined
    try {
      const { checkpoints, workload, graceMs } = this.#options
      const acquire = (signal: AbortSignal): Promise<number> => checkpoints.acquire(workload.id, { signal })
      this.#token = await this.#ask('taking over the checkpoints', acquire, graceMs)
    } catch (error) {
      this.#reportFailure(error)
    }
  }

  /** Freezes, drains and commits. Joins nothing: the caller sees to it that none is under way. */
  save(placement: Placement, options: SaverSaveOptions = {}): Promise<CheckpointRecord> {
    const { signal = placement.signal, isUrgent = false } = options
    const passage = this.#options.links.of(placement.target)?.passage(this.#options.workload.id)
    if (isUrgent) passage?.hurry()
    this.#passage = passage
    const saving = this.#save(placement, signal, passage).finally(() => {
      this.#saving = undefined
      this.#passage = undefined
      this.#dueBytes = undefined
      passage?.end()
    })
    this.#saving = saving
    return saving
  }

  /** Checkpoints that may be restored, newest first; each is opened only when it is its turn. */
  async *restorable(): AsyncIterable<StoredState> {
    const { checkpoints, workload } = this.#options
    const records = await this.#ask('listing the checkpoints', (signal) => checkpoints.list(workload.id, { signal }))
    const damaged = await this.#ask('listing the checkpoints', (signal) => checkpoints.damaged(workload.id, { signal }))
    for (const { generation, error } of damaged)
      if (!this.#corrupt.has(generation)) this.#tellDamaged(generation, error)
    for (const record of records) {
      if (this.#corrupt.has(record.generation)) continue
      const state = await this.#open(record)
      if (state === undefined) continue
      this.#latest = record
      yield state
    }
  }

  async #open(record: CheckpointRecord): Promise<StoredState | undefined> {
    const { checkpoints } = this.#options
    try {
      return await this.#ask('opening a checkpoint', (signal) => checkpoints.open(record, { signal }))
    } catch (error) {
      const isGone = EGpuError.is(error, EGpuErrorCode.CheckpointNotFound)
      if (!isGone && !EGpuError.is(error, EGpuErrorCode.CheckpointCorrupt)) throw error
      this.distrust(record, error)
      return undefined
    }
  }

  /** This one cannot be read; never offer it again. */
  distrust({ generation }: CheckpointRecord, error: unknown): void {
    if (this.#latest?.generation === generation) this.#latest = undefined
    this.#changes.forget()
    this.#tellDamaged(generation, error)
  }

  /** The work is done and nobody needs its checkpoints. */
  async forget(): Promise<void> {
    const { checkpoints, workload } = this.#options
    await this.#ask('removing the checkpoints', (signal) => checkpoints.forget(workload.id, { signal })).catch(
      (error: unknown) => this.#reportFailure(error),
    )
  }

  async #save(placement: Placement, signal: AbortSignal, passage: Passage | undefined): Promise<CheckpointRecord> {
    const { workload, checkpoints, clock, timeoutMs, report } = this.#options
    try {
      const frozenAt = clock.now()
      const frozen = await this.#freeze(placement, signal)
      const mark = this.#changes.note(frozen)
      const pauseMs = clock.now() - frozenAt
      try {
        if (this.#token === undefined) await this.takeOver()
        if (this.#token === undefined) throw new EGpuError(EGpuErrorCode.CheckpointFailed, 'the store does not answer')
        const total = frozen.parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
        let drained = 0
        const record = await checkpoints.save(workload.id, frozen, {
          token: this.#token,
          signal,
          stallMs: timeoutMs,
          since: this.#changes.upTo(mark),
          pace: passage,
          onProgress: ({ drainedBytes, carriedBytes }) => {
            drained = drainedBytes
            this.#dueBytes = Math.max(0, total - drainedBytes - carriedBytes)
          },
        })
        this.#drainedBytes = drained
        this.#changes.saved(mark, record.generation)
        this.#latest = record
        this.#cost = { pauseMs, totalMs: clock.now() - frozenAt }
        report({
          type: 'checkpoint-saved',
          workloadId: workload.id,
          progress: record.progress,
          bytes: record.byteLength,
          pauseMs,
        })
        return record
      } finally {
        dispose(frozen)
      }
    } catch (error) {
      if (EGpuError.is(error, EGpuErrorCode.StaleEpoch)) this.#token = undefined
      if (saysLost(error)) placement.lose({ reason: 'unknown', message: messageOf(error), atMs: clock.now() })
      // A stay that ended in peace took its unfinished checkpoint with it; that is no failure.
      if (!EGpuError.is(error, EGpuErrorCode.Closed)) this.#reportFailure(error)
      throw error
    }
  }

  async #freeze(placement: Placement, abort: AbortSignal): Promise<FrozenState> {
    const { workload, clock, timeoutMs } = this.#options
    const progress = workload.progress
    try {
      const frozen = await withDeadline((signal) => workload.freeze({ signal }), {
        clock,
        ms: timeoutMs * this.#patience,
        signal: abort,
        what: `freeze of ${workload.id}`,
        onLate: dispose,
      })
      this.#hungFreezes = 0
      checkFrozen(frozen)
      return frozen
    } catch (error) {
      if (EGpuError.is(error, EGpuErrorCode.Timeout)) {
        this.#patience = Math.min(mostPatience, this.#patience * 2)
        // Work that went on meanwhile is slow, not hung.
        this.#hungFreezes = workload.progress === progress ? this.#hungFreezes + 1 : 0
        if (this.#hungFreezes >= hungAfter) {
          this.#hungFreezes = 0
          placement.lose({ reason: 'hung', message: messageOf(error), atMs: clock.now() })
        }
      }
      throw asWorkloadFailure(workload.id, 'freeze', error)
    }
  }

  #ask<T>(what: string, work: (signal: AbortSignal) => Promise<T>, ms: number = this.#options.timeoutMs): Promise<T> {
    const { clock, workload } = this.#options
    return withDeadline(work, { clock, ms, what: `${what} of ${workload.id}` }).catch((cause: unknown) => {
      if (!EGpuError.is(cause, EGpuErrorCode.Timeout)) throw cause
      const message = `the checkpoint store does not answer: ${cause.message}`
      throw new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause })
    })
  }

  #tellDamaged(generation: number, error: unknown): void {
    this.#corrupt.add(generation)
    this.#reportFailure(error)
  }

  #reportFailure(error: unknown): void {
    const { workload, report } = this.#options
    report({
      type: 'checkpoint-failed',
      workloadId: workload.id,
      error: EGpuError.is(error)
        ? error
        : new EGpuError(EGpuErrorCode.CheckpointFailed, messageOf(error), { cause: error }),
    })
  }
}

/** A part of it that is wrong is found when it is drained; this is what nothing could be done with. */
function checkFrozen(frozen: Partial<FrozenState> | null | undefined): void {
  const isUsable =
    Array.isArray(frozen?.parts) &&
    typeof frozen.read === 'function' &&
    typeof frozen[Symbol.asyncDispose] === 'function' &&
    (frozen.changed === undefined || Array.isArray(frozen.changed))
  if (!isUsable) throw new TypeError('what it gives must be a FrozenState: parts, read() and [Symbol.asyncDispose]()')
}
