import type { EGpuDevice } from '../types/device.ts'
import type { RuntimeKind } from '../types/target.ts'

/** The machine the device is on, as far as it is known. */
export interface HostTraits {
  /** As Node's `process.platform` names it, or `browser`. */
  readonly platform?: string | undefined
  /** As Node's `process.arch` names it. */
  readonly architecture?: string | undefined
}

/** What routing looks at. `EGpuDevice` fits. */
export type RoutableDevice = Pick<EGpuDevice, 'gpu' | 'verdict' | 'state' | 'driver' | 'powerState' | 'appleSilicon'>

/** A runtime that can do the work, and what speaks for and against it. */
export interface RuntimeChoice {
  readonly runtime: RuntimeKind
  readonly for: readonly string[]
  readonly against: readonly string[]
}

/** A runtime that is installed but cannot use the device. */
export interface RuntimeRefusal {
  readonly runtime: RuntimeKind
  readonly reason: string
}

/** Where work for a device can run. */
export type BackendRoute =
  | {
      readonly routed: true
      /** Best first, never empty. The CPU comes last: it does the work without the device. */
      readonly choices: readonly RuntimeChoice[]
      readonly refusals: readonly RuntimeRefusal[]
    }
  | { readonly routed: false; readonly reason: string; readonly refusals: readonly RuntimeRefusal[] }
