import type { DeviceHolder } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'

/** PCI Express errors to add; those left out stay. */
export interface ErrorCounts {
  readonly correctable?: number | undefined
  readonly nonfatal?: number | undefined
  readonly fatal?: number | undefined
}

/** A GPU of the simulated machine, with the hands to hurt it. Calls on an absent GPU throw `EGPU_DEVICE_NOT_FOUND`. */
export interface SimCard {
  readonly key: string
  /** `absent` while it is not on the bus. */
  readonly stage: DeviceObservation['stage'] | 'absent'
  /** Counts incarnations, from 1; rises at every loss. */
  readonly epoch: number
  /** How often somebody woke it. */
  readonly wakeups: number
  readonly temperatureCelsius: number
  /** Makes it this hot now; it drifts back to what its load and fan give. */
  heat(celsius: number): void
  /** Slows the fan down to a share of its speed: 1 as designed, 0 stopped. */
  slowFan(share: number): void
  /** Takes memory that nobody owns, until `reset` or a power cycle. Less is taken if less is free. */
  leakMemory(bytes: number): void
  countErrors(errors: ErrorCounts): void
  /**
   * Stops answering: pending and later calls never settle. The driver tells at once (`device-wedged`, targets lost)
   * unless `silent`: then nobody is told and health readings hang too.
   */
  wedge(options?: { readonly silent?: boolean | undefined }): void
  /** Resets it: memory gone, targets lost, usable again; cures a wedge. */
  reset(): void
  /** Puts it to sleep; opening a target wakes it. Throws `EGPU_DEVICE_BUSY` while targets are open. */
  suspend(): void
  /** A process of the simulated machine holds it. Returns what lets go again. */
  hold(holder: DeviceHolder): () => void
  /** Makes that step of the next safe removal fail: `unbind`, `remove` or `deauthorize`. */
  failEject(step: 'unbind' | 'remove' | 'deauthorize', reason: string): void
}
