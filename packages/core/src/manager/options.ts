import type { AbortOptions } from '../abort.ts'
import type { Clock } from '../clock.ts'
import type { EGpuDriver } from '../driver/driver.ts'
import type { DeviceIdentity } from '../types/device.ts'
import type { EGpuEvent, EGpuEventType } from '../types/events.ts'
import type { Transport } from '../types/verdict.ts'
import type { PlanStep } from '../driver/system-change.ts'

/** What a user knows better than any driver: "this one is external". It outweighs every other evidence. */
export interface DeviceOverride {
  /** A device id as `manager.devices` shows it, or the parts of an identity that all have to match. */
  readonly device: string | Partial<DeviceIdentity>
  readonly conclusion: 'external' | 'internal'
  readonly transport?: Transport | undefined
}

export interface EGpuManagerOptions extends AbortOptions {
  /**
   * Drivers to use, in order of trust where two of equal standing disagree. The manager owns them from here on and
   * closes them with itself; if `create` rejects they are still yours.
   */
  readonly drivers: readonly EGpuDriver[]
  /** Where time comes from; the system's by default. */
  readonly clock?: Clock | undefined
  readonly overrides?: readonly DeviceOverride[] | undefined
  /**
   * How long one driver may take to probe, to list, to deliver the first resync of a watch, or to take one health
   * sample, before the manager goes on without its answer. Default 10,000.
   */
  readonly driverTimeoutMs?: number | undefined
}

export interface MonitoringOptions extends AbortOptions {
  /** How often the health of every device that is awake is sampled; 0 for never. Default 10,000. */
  readonly healthIntervalMs?: number | undefined
}

export interface NextOptions<T extends EGpuEventType> extends AbortOptions {
  /** Only an event for which this returns true. */
  readonly where?: ((event: EGpuEvent<T>) => boolean) | undefined
}

export interface EventsOptions<T extends EGpuEventType> extends AbortOptions {
  /** Only events of these types; all by default. */
  readonly types?: readonly T[] | undefined
}

export interface DisconnectOptions extends AbortOptions {
  /** How long the guests may take to leave, and then again how long the driver may take. Default 30,000. */
  readonly deadlineMs?: number | undefined
  /** Hears of every step the driver takes. */
  readonly onStep?: ((step: PlanStep, status: 'started' | 'done' | 'failed' | 'undone') => void) | undefined
}
