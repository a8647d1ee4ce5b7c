import type { EGpuDriver } from '../driver/driver.ts'
import type { OpenTarget } from '../types/target.ts'

/**
 * What can be done to the device under test from outside. All are optional: rules that need an absent hand are skipped
 * by name. Each resolves once the thing is done, not once the driver has noticed.
 */
export interface Hands {
  /** Puts the cable back in, or brings the device back after it was removed safely. */
  plug?(): Promise<void> | void
  /** Pulls the cable without a word. */
  unplug?(): Promise<void> | void
  /** Makes the device stop answering, in a way the driver can notice. */
  wedge?(): Promise<void> | void
  /** Makes a process hold the device; the returned function lets go. */
  hold?(): Promise<() => void> | (() => void)
  /** Makes the driver's source of events drop messages, as a full kernel buffer does. */
  overflow?(): Promise<void> | void
  /** Starts work on an open target that goes on until the target ends; settles as that work does. */
  work?(target: OpenTarget): Promise<unknown>
}

export type HandName = keyof Hands

/**
 * A driver, a machine it can see, and hands that touch the machine. When the suite gets it, the device is plugged in
 * and ready. Made afresh for every rule, disposed of after it.
 */
export interface Rig extends AsyncDisposable {
  readonly driver: EGpuDriver
  readonly hands?: Hands | undefined
  /** Key of the device the hands touch; by default the first external device of the list, else the first. */
  readonly subject?: string | undefined
  /** The same driver where it cannot work: another platform, a missing library. Its `probe()` must say so. */
  readonly unusable?: EGpuDriver | undefined
}
