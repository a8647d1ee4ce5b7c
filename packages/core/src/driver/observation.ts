import type { AppleSiliconEGpuInfo } from '../types/apple.ts'
import type { DeviceIdentity, DisplayId, EGpuPowerState, GpuDescription } from '../types/device.ts'
import type { Enclosure } from '../types/enclosure.ts'
import type { Finding } from '../types/finding.ts'
import type { LinkReport } from '../types/link.ts'
import type { Verdict } from '../types/verdict.ts'
import type { ThunderboltSpeed } from '../bandwidth/thunderbolt.ts'

/** What one driver saw of one device at one moment. Immutable; unknown is `undefined`. */
export interface DeviceObservation {
  /**
   * Names the device within this driver, and is the same again after a re-plug as far as the hardware allows. Never a
   * bus number or an index alone.
   */
  readonly key: string
  readonly identity: DeviceIdentity
  readonly gpu: GpuDescription
  /**
   * How far it got: `present` is on the bus, `ready` is bound to a driver and can be opened, `lost` and `wedged` are
   * still listed but dead.
   */
  readonly stage: 'present' | 'ready' | 'lost' | 'wedged'
  /** Left out by drivers that cannot tell. */
  readonly verdict?: Verdict | undefined
  readonly enclosureId?: string | undefined
  readonly thunderboltPort?: string | undefined
  readonly thunderboltSpeed?: ThunderboltSpeed | undefined
  readonly link?: LinkReport | undefined
  readonly powerState?: EGpuPowerState | undefined
  readonly hasDisplays?: boolean | undefined
  readonly displayIds?: readonly DisplayId[] | undefined
  /** Kernel driver bound to it. */
  readonly kernelDriver?: string | undefined
  readonly appleSilicon?: AppleSiliconEGpuInfo | undefined
}

/** All that one driver sees at one moment. */
export interface DriverSnapshot {
  /** Every GPU, external or not. */
  readonly devices: readonly DeviceObservation[]
  readonly enclosures: readonly Enclosure[]
  readonly findings: readonly Finding[]
}
