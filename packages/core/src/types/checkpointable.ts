import type { AbortOptions } from '../abort.ts'
import type { WorkloadProfile } from '../bandwidth/efficiency.ts'
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
  read(part: string, options?: ReadOptions): AsyncIterable<Uint8Array>
}

export interface ReadOptions extends AbortOptions {
  /**
   * Each piece was copied or sent on before the next is asked for, so that its memory may be used again. Large states
   * are read several times as fast: fresh memory is what costs most. By default every piece stays the reader's.
   */
  readonly transient?: boolean | undefined
}

/** Some bytes of one part of a workload's state. */
export interface StateRange {
  readonly part: string
  readonly byteOffset: number
  readonly byteLength: number
}

/**
 * A consistent copy that the workload keeps while it goes on working. Draining happens in the background; if the
 * device is lost before the drain ended, `read` rejects with `EGPU_DEVICE_LOST` and nothing of it may be kept.
 */
export interface FrozenState extends SavedState, AsyncDisposable {
  /**
   * All that may differ from the freeze before this one; too much is fine, too little is not. Left out by workloads that
   * cannot tell, and for the first freeze after a `restore`: then everything may differ.
   */
  readonly changed?: readonly StateRange[] | undefined
  /** The bytes of one range, in order; rejects like `read`. Without it whole parts are read. */
  readRange?(range: StateRange, options?: AbortOptions): AsyncIterable<Uint8Array>
}

/**
 * State that gathers on the next target while the work goes on at the old one. Disposing of it before `adopt` gives
 * back what it holds there and changes nothing else.
 */
export interface StagedState extends AsyncDisposable {
  /** Puts bytes in their place; later ones replace earlier ones. `bytes` may be reused once it resolves. */
  write(range: StateRange, bytes: Uint8Array, options: Required<AbortOptions>): Promise<void>
  /** What is there now, to be compared with what was sent. */
  read(range: StateRange, options: Required<AbortOptions>): AsyncIterable<Uint8Array>
  /**
   * The work is suspended and all of its state is here: from now on the workload is on this target, at its present
   * progress, as after a `restore`. Lets go of the old target. Rejecting, it must have changed nothing.
   */
  adopt(options: Required<AbortOptions>): Promise<void>
}

/** What a workload needs from a target. */
export interface WorkloadNeeds {
  /** Runtimes it has code for, best first. */
  readonly runtimes: readonly RuntimeKind[]
  readonly memoryBytes?: number | undefined
  readonly limits?: Readonly<Record<string, number>> | undefined
  readonly features?: readonly string[] | undefined
  /** The only chip it can run on, as the target's `chip` names it: state in a chip's own format. */
  readonly chip?: string | undefined
  /** What one unit of work costs; with it, work goes where it is expected to be finished first. */
  readonly profile?: WorkloadProfile | undefined
  /** Units of work in all, so that `units - progress` are left. */
  readonly units?: number | undefined
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
  /**
   * Optional: makes room for the state on another target while the work goes on here, so that a move interrupts it
   * only for the last changes. Rejects with `EGPU_TARGET_INCOMPATIBLE` where that target cannot take it.
   */
  stage?(target: OpenTarget, parts: readonly StatePart[], options: Required<AbortOptions>): Promise<StagedState>
  /** Let go of the target: it is lost, or the work goes on elsewhere. Must not touch a lost device. */
  release(options: Required<AbortOptions> & { readonly lost: boolean }): Promise<void>
}
