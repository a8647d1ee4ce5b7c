import type { DeviceHolder, SystemPlan } from '../driver/system-change.ts'
import type { EGpuDevice } from '../types/device.ts'

/** A guest that did not leave, and why. */
export interface GuestVeto {
  readonly guest: string
  readonly reason: string
}

/** What a safe disconnect would do. Nothing has been changed. */
export interface DisconnectPlan {
  readonly device: EGpuDevice
  /** The driver that would remove it. */
  readonly driver: string
  /** Names of the guests that would be asked to leave first. */
  readonly guests: readonly string[]
  /** The driver's steps, who holds the device now, and what rules it out. */
  readonly removal: SystemPlan
}

/** How a safe disconnect ended: either the cable may be pulled, or exactly who or what is in the way. */
export type DisconnectResult =
  | {
      readonly safeToUnplug: true
      readonly device: EGpuDevice
      /** What the guests moved off the device first. */
      readonly moved: readonly string[]
      /** What the driver wants a person to know. */
      readonly notes: readonly string[]
    }
  | {
      readonly safeToUnplug: false
      readonly device: EGpuDevice
      /** One sentence for a person. */
      readonly reason: string
      readonly vetoes: readonly GuestVeto[]
      /** Processes that hold the device. */
      readonly holders: readonly DeviceHolder[]
      /** Why the driver could not even begin. */
      readonly refusals: readonly string[]
      /** The driver's step that failed, when one had been reached. */
      readonly failedStep: string | undefined
      /** Steps of the driver that were taken back. */
      readonly undone: readonly string[]
    }
