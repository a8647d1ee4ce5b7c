import type { ThunderboltSpeed } from '../bandwidth/thunderbolt.ts'
import type { GpuDeviceState } from '../registry/states.ts'
import type { AppleSiliconEGpuInfo } from './apple.ts'
import type { LinkReport } from './link.ts'
import type { GpuVendor } from './vendor.ts'
import type { Verdict } from './verdict.ts'

/** How much power the GPU draws on purpose. */
export const EGpuPowerState = {
  Active: 'active',
  Idle: 'idle',
  Suspended: 'suspended',
  Disconnected: 'disconnected',
} as const
export type EGpuPowerState = (typeof EGpuPowerState)[keyof typeof EGpuPowerState]

/** One display connector: `<card>/<connector>`, for example `card1/DP-2`. */
export type DisplayId = string

/** The GPU itself. Ids are numbers as PCI gives them. */
export interface GpuDescription {
  /** Marketing name where some source tells one. */
  readonly name?: string | undefined
  readonly vendor?: GpuVendor | undefined
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
  readonly subsystemVendorId?: number | undefined
  readonly subsystemDeviceId?: number | undefined
  /** 24-bit PCI class, `0x030000` for a VGA controller. */
  readonly pciClass?: number | undefined
  readonly memoryBytes?: number | undefined
}

/** What tells one GPU from another. Drivers fill in what they can read; core joins observations by it. */
export interface DeviceIdentity {
  /** Vendor's own UUID (`GPU-…` of NVML and CUDA, Vulkan's deviceUUID): the strongest evidence. */
  readonly uuid?: string | undefined
  /** PCI Device Serial Number or another serial that survives a re-plug. */
  readonly serial?: string | undefined
  /** `dddd:bb:dd.f`, lower case. True only for the moment it was read: bus numbers change with port and plug order. */
  readonly pciAddress?: string | undefined
  /** macOS registry entry id, decimal. */
  readonly registryEntryId?: string | undefined
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
  readonly subsystemVendorId?: number | undefined
  readonly subsystemDeviceId?: number | undefined
  /** Unique id of the enclosure's router. */
  readonly enclosureUid?: string | undefined
  /** Which of several GPUs in one enclosure, counted along the tunnel, from 0. */
  readonly enclosureSlot?: number | undefined
  /** Name as a graphics API shows it; the weakest evidence. */
  readonly adapterName?: string | undefined
}

/** Where the observation of one driver went into a device. */
export interface DeviceSource {
  readonly driver: string
  /** The driver's own key of the device. */
  readonly key: string
  readonly identity: DeviceIdentity
}

/**
 * One GPU of the machine, fused from everything the drivers saw. A snapshot: later changes come as events and as new
 * objects from `manager.devices`.
 */
export interface EGpuDevice {
  /** Survives re-plug, port changes and reboots as far as the hardware allows. Never a bus number or an index. */
  readonly id: string
  readonly gpu: GpuDescription
  readonly verdict: Verdict
  readonly state: GpuDeviceState
  /** Counts incarnations: it rises each time the device is lost or comes back. Handles of an older epoch are void. */
  readonly epoch: number
  readonly identity: DeviceIdentity
  readonly enclosureId?: string | undefined
  readonly enclosureName?: string | undefined
  /** Where the cable is plugged in, as the host names it: `domain0/port1`. */
  readonly thunderboltPort?: string | undefined
  readonly thunderboltSpeed?: ThunderboltSpeed | undefined
  /** What the enclosure can deliver to the host over the cable. */
  readonly powerDeliveryWatts?: number | undefined
  readonly powerState?: EGpuPowerState | undefined
  /** Whether a monitor is plugged into the GPU; `displayIds` says where. */
  readonly hasDisplays?: boolean | undefined
  readonly displayIds?: readonly DisplayId[] | undefined
  readonly link?: LinkReport | undefined
  /** Kernel driver bound to it; `undefined` when none is, or when nobody could tell. */
  readonly driver?: string | undefined
  readonly appleSilicon?: AppleSiliconEGpuInfo | undefined
  readonly sources: readonly DeviceSource[]
}
