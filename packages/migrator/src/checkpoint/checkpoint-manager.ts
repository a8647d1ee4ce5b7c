import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock, FrozenState, ReadOptions, SavedState, StatePart, StateRange } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { messageOf } from '../failure.ts'
import { drainPlan } from './drain-plan.ts'
import type { Pace } from './pace.ts'
import { expired, leastGenerations } from './retention.ts'
import type { Retention } from './retention.ts'
import type { CheckpointRecord, CheckpointStore, CheckpointWriter, DamagedCheckpoint } from './store.ts'

export interface SaveOptions extends AbortOptions {
  /** From `acquire(workloadId)`. */
  readonly token: number
  /**
   * How long the state may go without handing over its next bytes, and the store without taking them or committing,
   * before either counts as hung.
   */
  readonly stallMs?: number | undefined
  /** Called between the last byte and the commit; throwing discards the checkpoint. */
  readonly beforeCommit?: (() => void) | undefined
  /**
   * From `Changes`: only what may differ from this generation is drained, the rest is taken over from it. Of use where
   * the state has `readRange` and the store can take over; otherwise everything is drained.
   */
  readonly since?: { readonly base: number; readonly changed: readonly StateRange[] } | undefined
  /** How fast bytes may be drained. Default: as fast as they come. */
  readonly pace?: Pick<Pace, 'take' | 'observe'> | undefined
  /** Hears of bytes that were drained, of those that need not be, and so of how far it is. */
  readonly onProgress?: ((progress: DrainProgress) => void) | undefined
}

export interface DrainProgress {
  /** Read from the device. */
  readonly drainedBytes: number
  /** Taken over from the base. */
  readonly carriedBytes: number
}

/** A checkpoint to restore from. */
export interface StoredState extends SavedState {
  readonly record: CheckpointRecord
  /**
   * What reading it failed with, if it did. With `EGPU_CHECKPOINT_CORRUPT` a restore may still succeed from an older
   * one; with `EGPU_CHECKPOINT_FAILED` the store itself did not answer, and this one may be read later.
   */
  readonly failure: EGpuError | undefined
}

export interface CheckpointManagerOptions {
  readonly clock: Clock
  /** Which checkpoints of a workload stay; the newest 2 always do. Default: only those. */
  readonly keep?: Partial<Retention> | undefined
}

/**
 * Takes frozen states into a store and gives back the newest one that can be trusted. A failed save never costs an
 * earlier generation, and the next save starts afresh.
 */
export class CheckpointManager implements AsyncDisposable {
  readonly store: CheckpointStore
  readonly #clock: Clock
  readonly #retention: Retention
  /** What a store that did not come back in time is still doing. */
  readonly #stuck = new Map<string, string>()

  /** `TypeError` for a retention that cannot be. */
  constructor(store: CheckpointStore, { clock, keep = {} }: CheckpointManagerOptions) {
    const { generations = leastGenerations, maxAgeMs = Infinity, maxBytes = Infinity } = keep
    if (!Number.isSafeInteger(generations) || generations < leastGenerations) {
      throw new TypeError(`keep.generations must be a whole number from ${leastGenerations} up, not ${generations}`)
    }
    if (!(maxAgeMs >= 0)) throw new TypeError(`keep.maxAgeMs must be 0 or more, not ${maxAgeMs}`)
    if (!(maxBytes >= 0)) throw new TypeError(`keep.maxBytes must be 0 or more, not ${maxBytes}`)
    this.store = store
    this.#clock = clock
    this.#retention = { generations, maxAgeMs, maxBytes }
  }

  /** Makes the caller the only writer of this workload's checkpoints; `save` wants the token. */
  async acquire(workloadId: string, options?: AbortOptions): Promise<number> {
    return asking(workloadId, options, () => this.store.acquire(workloadId, options))
  }

  /**
   * Drains `state` into the store and commits it. `signal` counts while bytes are drained; a commit that has begun is
   * seen through. Rejects with `EGPU_CHECKPOINT_FAILED` (its cause says why), `EGPU_STALE_EPOCH` when another writer
   * took over, or the abort reason; in each case earlier generations are as they were, and nothing new is listed. Only a
   * commit that hung may still come about; until it is known, the next saves are refused.
   */
  async save(workloadId: string, state: SavedState, options: SaveOptions): Promise<CheckpointRecord> {
    const { signal } = options
    signal?.throwIfAborted()
    const stuck = this.#stuck.get(workloadId)
    if (stuck !== undefined) {
      const message = `the store has still not come back from ${stuck} of ${workloadId}; earlier checkpoints are intact`
      throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
    }
    let record: CheckpointRecord
    try {
      const writer = await this.#begin(workloadId, state, options)
      await this.#fill(writer, workloadId, state, options)
      const committing = writer.commit()
      // Nothing of it may be removed while it may still come about.
      committing.catch(() => writer.discard()).catch(() => undefined)
      record = await this.#inTime(workloadId, 'the commit', committing, options)
    } catch (error) {
      throw asSaveFailure(workloadId, error, signal)
    }
    await this.#inTime(workloadId, 'the removal of old checkpoints', this.#retain(workloadId), options).catch(() => {
      // It is committed all the same; the next save hears of the store.
    })
    return record
  }

  /** Generations of a workload that are committed, newest first. Rejects with `EGPU_CHECKPOINT_FAILED`. */
  async list(workloadId: string, options?: AbortOptions): Promise<readonly CheckpointRecord[]> {
    return asking(workloadId, options, () => this.store.list(workloadId, options))
  }

  /** Checkpoints that are there but cannot be used, where the store can tell. Rejects with `EGPU_CHECKPOINT_FAILED`. */
  async damaged(workloadId: string, options?: AbortOptions): Promise<readonly DamagedCheckpoint[]> {
    return asking(workloadId, options, async () => (await this.store.damaged?.(workloadId, options)) ?? [])
  }

  /**
   * Opens one generation. Rejects with `EGPU_CHECKPOINT_NOT_FOUND`, `EGPU_CHECKPOINT_CORRUPT`, or
   * `EGPU_CHECKPOINT_FAILED` when the store itself failed.
   */
  async open(record: CheckpointRecord, options?: AbortOptions): Promise<StoredState> {
    const { workloadId, generation } = record
    return asking(workloadId, options, async () => {
      return new WatchedState(record, await this.store.open(workloadId, generation, options))
    })
  }

  /**
   * Removes all checkpoints of a workload, the newest last: interrupted, it leaves what is worth most. Whoever still
   * writes one is shut out first, an abandoned save of the same process included: it would come after the removal.
   */
  async forget(workloadId: string, options?: AbortOptions): Promise<void> {
    await asking(workloadId, options, async () => {
      await this.store.acquire(workloadId, options)
      const records = await this.store.list(workloadId, options)
      for (const { generation } of [...records].reverse()) {
        await this.store.remove(workloadId, generation, options)
      }
    })
  }

  close(): Promise<void> {
    return this.store.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #begin(workloadId: string, { progress, parts }: SavedState, options: SaveOptions): Promise<CheckpointWriter> {
    const { token, since, signal, stallMs = Infinity } = options
    return withDeadline(
      (abort) => this.store.begin({ workloadId, token, progress, parts, base: since?.base }, { signal: abort }),
      {
        clock: this.#clock,
        ms: stallMs,
        signal,
        what: `the beginning of a checkpoint of ${workloadId}`,
        onLate: (writer) => void writer.discard().catch(() => undefined),
      },
    )
  }

  /** Up to the commit; whatever fails, nothing is left of it. */
  async #fill(writer: CheckpointWriter, workloadId: string, state: SavedState, options: SaveOptions): Promise<void> {
    try {
      const drain: Drain = { state, writer, options, drainedBytes: 0, carriedBytes: 0 }
      for (const part of state.parts) await this.#drainPart(part, drain)
      options.signal?.throwIfAborted()
      options.beforeCommit?.()
    } catch (error) {
      await this.#inTime(workloadId, 'the end of a checkpoint', writer.discard(), options).catch(() => undefined)
      throw error
    }
  }

  /** Waits for the store no longer than it may take; if it takes longer, it is not asked again until it is back. */
  async #inTime<T>(workloadId: string, what: string, work: Promise<T>, { stallMs }: SaveOptions): Promise<T> {
    try {
      return await withDeadline(() => work, {
        clock: this.#clock,
        ms: stallMs ?? Infinity,
        what: `${what} of ${workloadId}`,
      })
    } catch (error) {
      if (EGpuError.is(error, EGpuErrorCode.Timeout)) {
        this.#stuck.set(workloadId, what)
        const back = (): void => void this.#stuck.delete(workloadId)
        work.then(back, back)
      }
      throw error
    }
  }

  async #drainPart(part: StatePart, drain: Drain): Promise<void> {
    const { state, writer, options } = drain
    const { carry } = writer
    const readRange = (state as FrozenState).readRange?.bind(state)
    if (carry === undefined || readRange === undefined || options.since === undefined) {
      await this.#drain(part.name, (signal) => state.read(part.name, { signal, transient: true }), drain)
      return
    }
    for (const { byteOffset, byteLength, changed } of drainPlan(part, options.since.changed, carry.unitBytes)) {
      const end = byteOffset + byteLength
      for (let at = byteOffset; at < end;) {
        const carried = changed ? 0 : await carry.take(part.name, end - at)
        at += carried
        this.#tell(drain, 0, carried)
        if (at === end) break
        // What the base does not give has to come from the device after all, a unit at a time.
        const length = changed ? end - at : Math.min(carry.unitBytes, end - at)
        const range: StateRange = { part: part.name, byteOffset: at, byteLength: length }
        await this.#drain(part.name, (signal) => readRange(range, { signal }), drain)
        at += length
      }
    }
  }

  async #drain(part: string, read: (signal: AbortSignal) => AsyncIterable<Uint8Array>, drain: Drain): Promise<void> {
    const { writer, options } = drain
    const { signal, pace } = options
    const inner = new AbortController()
    const abort = (): void => inner.abort(signal?.reason)
    signal?.addEventListener('abort', abort, { once: true })
    const chunks = read(inner.signal)[Symbol.asyncIterator]()
    const startedAt = this.#clock.now()
    let seen = 0
    try {
      for (;;) {
        const next = await withDeadline(() => chunks.next(), {
          clock: this.#clock,
          ms: options.stallMs ?? Infinity,
          signal,
          what: `the next bytes of part '${part}'`,
        })
        if (next.done === true) {
          pace?.observe(seen, this.#clock.now() - startedAt)
          return
        }
        // Anything else with a length would be saved as other bytes than it holds.
        if (!ArrayBuffer.isView(next.value) || next.value.BYTES_PER_ELEMENT !== 1) {
          throw new EGpuError(EGpuErrorCode.WorkloadFailed, `part '${part}' gave something else than a Uint8Array`)
        }
        const { byteLength } = next.value
        seen += byteLength
        await withDeadline((abort) => writer.append(part, next.value, { signal: abort }), {
          clock: this.#clock,
          ms: options.stallMs ?? Infinity,
          signal,
          what: `the store's taking of part '${part}'`,
        })
        this.#tell(drain, byteLength, 0)
        await pace?.take(byteLength, { signal })
      }
    } catch (error) {
      inner.abort(error)
      // Not awaited: a generator that hangs in the device never gets to its `return`.
      chunks.return?.().catch(() => undefined)
      throw error
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  #tell(drain: Drain, drained: number, carried: number): void {
    drain.drainedBytes += drained
    drain.carriedBytes += carried
    const { drainedBytes, carriedBytes } = drain
    if (drained + carried > 0) drain.options.onProgress?.({ drainedBytes, carriedBytes })
  }

  /** Older generations than we keep go. Failing to remove one does not make the new one any less saved. */
  async #retain(workloadId: string): Promise<void> {
    try {
      for (const generation of expired(await this.store.list(workloadId), this.#retention, Date.now())) {
        await this.store.remove(workloadId, generation)
      }
    } catch {
      // The next save tries again.
    }
  }
}

/** One save under way. */
interface Drain {
  readonly state: SavedState
  readonly writer: CheckpointWriter
  readonly options: SaveOptions
  drainedBytes: number
  carriedBytes: number
}

function asSaveFailure(workloadId: string, error: unknown, signal: AbortSignal | undefined): unknown {
  if (isAbort(error, signal)) return error
  if (EGpuError.is(error, EGpuErrorCode.StaleEpoch) || EGpuError.is(error, EGpuErrorCode.CheckpointFailed)) return error
  return new EGpuError(
    EGpuErrorCode.CheckpointFailed,
    `could not save a checkpoint of ${workloadId}: ${messageOf(error)}; earlier checkpoints are intact`,
    { cause: error },
  )
}

/** Whatever a store fails with has a code afterwards; an abort stays what it is. */
async function asking<T>(workloadId: string, options: AbortOptions | undefined, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    throw isAbort(error, options?.signal) ? error : asStoreFailure(workloadId, error)
  }
}

function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true && error === signal.reason
}

function asStoreFailure(workloadId: string, error: unknown): EGpuError {
  if (EGpuError.is(error)) return error
  const message = `the store of the checkpoints of ${workloadId} does not work: ${messageOf(error)}`
  return new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause: error })
}

class WatchedState implements StoredState {
  readonly record: CheckpointRecord
  readonly progress: number
  readonly parts: SavedState['parts']
  failure: EGpuError | undefined
  readonly #state: SavedState

  constructor(record: CheckpointRecord, state: SavedState) {
    this.record = record
    this.progress = state.progress
    this.parts = state.parts
    this.#state = state
  }

  async *read(part: string, options?: ReadOptions): AsyncIterable<Uint8Array> {
    try {
      yield* this.#state.read(part, options)
    } catch (error) {
      if (isAbort(error, options?.signal)) throw error
      this.failure = asStoreFailure(this.record.workloadId, error)
      throw this.failure
    }
  }
}
