import type { AbortOptions } from '../abort.ts'
import type { HealthSample } from '../types/health.ts'
import type { ComputeTarget, OpenTarget, RuntimeKind } from '../types/target.ts'
import type { DriverEvent } from './events.ts'
import type { DriverSnapshot } from './observation.ts'
import type { PassthroughCapability, SafeRemovalCapability } from './system-change.ts'

/** What a driver can do, declared up front and constant, so that callers branch on it and the suite tests it. */
export interface DriverCapabilities {
  /** `watch()` reports changes by itself. Without it, `watch()` yields one `resync` and then waits for the abort. */
  readonly hotplug: boolean
  /** Observations carry a verdict. */
  readonly verdict: boolean
  readonly health: boolean
  readonly safeRemoval: boolean
  readonly passthrough: boolean
  /** Runtimes it can open targets of. Empty when it only observes. */
  readonly runtimes: readonly RuntimeKind[]
}

/** "Can this work here?" A refusal is a sentence that says what is missing and, where there is one, the remedy. */
export type ProbeResult =
  | { readonly usable: true }
  | { readonly usable: false; readonly reason: string; readonly cause?: unknown }

export interface HealthCapability {
  /**
   * Reads what can be read without waking the device. Rejects with `EGPU_DEVICE_NOT_FOUND` for an unknown key and with
   * `EGPU_DEVICE_LOST` for a dead device. May be called at any rate and while the device disappears.
   */
  sample(key: string, options?: AbortOptions): Promise<HealthSample>
}

export interface RuntimeCapability {
  /** What could be opened now. Must not open or wake anything. `deviceId` holds this driver's own key. */
  targets(options?: AbortOptions): Promise<readonly ComputeTarget[]>
  /**
   * Opens one target. Rejects with `EGPU_DEVICE_NOT_FOUND` when it is not there any more. The returned target's
   * `lost` resolves when the device is lost, also while nothing is running on it.
   */
  open(targetId: string, options?: AbortOptions): Promise<OpenTarget>
}

/**
 * The contract for drivers. A driver is made by a function named for what it drives (`linuxDriver()`), does nothing
 * on import or construction, and touches native code only from `probe()` on. Core validates, tracks state, retries
 * and fans out; a driver translates. The compliance suite in `@egpu/core/testing` checks every rule given here.
 */
export interface EGpuDriver extends AsyncDisposable {
  /** Version of this contract. */
  readonly specVersion: 1
  /** Kebab-case, unique among the drivers of one manager. */
  readonly name: string
  readonly capabilities: DriverCapabilities
  /** Never rejects because of the platform: it resolves with the reason. */
  probe(options?: AbortOptions): Promise<ProbeResult>
  /** A fresh look at everything. Keys are unique. Rejects with the abort reason when `signal` fires. */
  list(options?: AbortOptions): Promise<DriverSnapshot>
  /**
   * Subscribes first, then lists, then yields `{ type: 'resync', reason: 'started' }`, so nothing falls in between.
   * After any overflow it yields another `resync`. Ends without throwing when `signal` aborts; throwing means that the
   * driver cannot go on. Several watches may run at once.
   */
  watch(options: Required<AbortOptions>): AsyncIterable<DriverEvent>
  /** Present exactly when `capabilities.health`. */
  readonly health?: HealthCapability | undefined
  /** Present exactly when `capabilities.safeRemoval`. */
  readonly safeRemoval?: SafeRemovalCapability | undefined
  /** Present exactly when `capabilities.passthrough`. */
  readonly passthrough?: PassthroughCapability | undefined
  /** Present exactly when `capabilities.runtimes` is not empty. */
  readonly runtime?: RuntimeCapability | undefined
  /**
   * Ends every watch and closes every open target; calls under way settle. Calling it twice is fine. Afterwards `list()`
   * and capabilities reject with `EGPU_CLOSED`, and a new watch is over at once.
   */
  close(): Promise<void>
}
