import type { AbortOptions } from '../abort.ts'
import type { EGpuDevice } from '../types/device.ts'

/** How a guest's leaving went. A refusal says what still holds the device. */
export type LeaveResult =
  | { readonly left: true; readonly moved: readonly string[] }
  | { readonly left: false; readonly reason: string }

/**
 * Somebody who uses devices and wants to be asked before one goes: the migrator, an application with open windows.
 * Register it with `manager.addGuest(guest)`.
 */
export interface Guest {
  readonly name: string
  /**
   * Get everything off the device. Called once per safe disconnect, guests in parallel. After `signal` aborts the
   * answer no longer counts; that is after `deadlineMs`, so a guest that knows it will need longer can say so at once.
   */
  leave(
    device: EGpuDevice,
    options: Required<AbortOptions> & { readonly deadlineMs?: number | undefined },
  ): Promise<LeaveResult>
  /** The disconnect was called off after this guest had left: it may come back. */
  stay?(device: EGpuDevice): unknown
}
