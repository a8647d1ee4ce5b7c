import type { EGpuError, TargetLoss } from '@egpu/core'

/** What a protected device has to tell. The application above it needs none of it to go on. */
export type ProtectionEvent =
  | { readonly type: 'lost'; readonly epoch: number; readonly reason: TargetLoss['reason']; readonly message: string }
  /** `move()` leaves a device that works; `recovered` follows. */
  | { readonly type: 'moving'; readonly epoch: number; readonly adapter: string }
  /** A device stands by on `adapter`, with everything made that it is kept for (option `standBy`). */
  | { readonly type: 'standing-by'; readonly adapter: string }
  /** An adapter was passed over: it lacks a limit or a feature, or memory. */
  | { readonly type: 'refused'; readonly adapter: string; readonly error: EGpuError }
  /** No adapter could take over; the next look is after `retryMs`, or at `retry()`. */
  | { readonly type: 'waiting'; readonly retryMs: number }
  /** The work goes on. `rtoMs` is the time from hearing of the loss until the replay was known to have run. */
  | {
      readonly type: 'recovered'
      readonly epoch: number
      readonly adapter: string
      readonly rtoMs: number
      readonly replayedEntries: number
      readonly restoredBytes: number
    }
  /** The replay gave other bytes than the application had been given: its shaders are not deterministic. */
  | { readonly type: 'diverged'; readonly label: string; readonly offset: number; readonly size: number }
  /**
   * Something could not be done again after a loss: work with a texture of a format that this version does not know,
   * whose content is zeros now; with an `external` (video) texture, which was left out; or a result of a `query` that is
   * resolved once more after a checkpoint and a loss, which gives zeros.
   */
  | { readonly type: 'incomplete'; readonly label: string; readonly format: GPUTextureFormat | 'external' | 'query' }
  | { readonly type: 'checkpointed'; readonly bytes: number; readonly pauseMs: number; readonly drainMs: number }
  /** The device refused to save, for lack of memory perhaps: the log goes on growing, and it is tried again later. */
  | { readonly type: 'checkpoint-failed'; readonly message: string }
  /** The same submit took several devices down; it will not be given another one. */
  | { readonly type: 'poisoned'; readonly labels: readonly string[]; readonly error: EGpuError }
  | { readonly type: 'given-up'; readonly error: EGpuError }
