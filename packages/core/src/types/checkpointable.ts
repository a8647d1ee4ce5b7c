import type { AbortOptions } from '../abort.ts'
import type { OpenTarget, RuntimeKind } from './target.ts'

/** One named piece of a workload's state, such as a buffer. */
export interface StatePart {
  readonly name: string
  readonly byteLength: number
}

/** State that can be read back: from a store, from memory, from another host. */
export interface SavedState {
  /** Units of work that had been done when the state was taken, for instance steps. */
  readonly progress: number
  readonly parts: readonly StatePart[]
  /** The bytes of one part, in order. Rejects with `EGPU_CHECKPOINT_CORRUPT` rather than give wrong ones. */
  read(part: string, options?: AbortOptions): AsyncIterable<Uint8Array>
}

/**
 * A consistent copy that the workload keeps while it goes on working. Draining happens in the background; if the
 * device is lost before the drain ended, `read` rejects with `EGPU_DEVICE_LOST` and nothing of it may be kept.
 */
export interface FrozenState extends SavedState, AsyncDisposable {}

/** What a workload needs from a target. */
export interface WorkloadNeeds {
  /** Runtimes it has code for, best first. */
  readonly runtimes: readonly RuntimeKind[]
  readonly memoryBytes?: number | undefined
  readonly limits?: Readonly<Record<string, number>> | undefined
  readonly features?: readonly string[] | undefined
}

/**
 * Work that can be saved, moved and resumed. The migrator calls these one at a time, in this order:
 * `restore` → `resume` → (`freeze` …) → `suspend` → `freeze` → `release`, and again from `restore` on the next target.
 * After a loss it goes straight to `release`, also after a `restore` that failed. A call whose signal fired is abandoned:
 * it may never settle (the device hangs), the next call does not wait for it, and what it does from then on must not
 * change the workload any more.
 */
export interface Checkpointable {
  readonly id: string
  readonly needs: WorkloadNeeds
  /** Units of work done so far; after `restore` it is the restored state's. */
  readonly progress: number
  /** Resolves when all work is done; rejects when the work itself fails (not when a target is lost). */
  readonly finished: Promise<void>
  /** Bring the state onto `target`: `state` if given, else the initial one. Must not start to work yet. */
  restore(target: OpenTarget, state: SavedState | undefined, options: Required<AbortOptions>): Promise<void>
  /** Start or go on working. Returns at once; the work itself runs on. */
  resume(): void
  /** Take a consistent copy between two units of work, with as short a pause as possible; also while suspended. */
  freeze(options: Required<AbortOptions>): Promise<FrozenState>
  /** Stop after the current unit of work; resolves when nothing runs any more. A `resume` undoes it. */
  suspend(options: Required<AbortOptions>): Promise<void>
  /** Let go of the target: it is lost, or the work goes on elsewhere. Must not touch a lost device. */
  release(options: Required<AbortOptions> & { readonly lost: boolean }): Promise<void>
}
