import type { Bar } from '../sysfs/parse.ts'

/** Everything the reading side knows of a machine at one moment, before any judgement. */
export interface Topology {
  readonly machine: MachineFacts
  /** By PCI address. */
  readonly pci: ReadonlyMap<string, PciFunction>
  /** Addresses of the Thunderbolt and USB4 host interfaces. */
  readonly hostInterfaces: readonly string[]
  readonly thunderbolt: ThunderboltTopology
  readonly drmCards: readonly DrmCard[]
  /** Directories of sensors by the PCI address they belong to: `class/hwmon/hwmon3`. Their values are not read here. */
  readonly hwmon: ReadonlyMap<string, readonly string[]>
  readonly typecPorts: readonly TypecPort[]
  /** Pairs of PCI functions that the kernel linked, supplier first: host interface and root port, for one. */
  readonly deviceLinks: readonly (readonly [string, string])[]
  /** Addresses without function (`0000:01:00`) that hot-plug slots cover. */
  readonly hotplugSlots: readonly string[]
}

export interface MachineFacts {
  /** SMBIOS chassis type. */
  readonly chassisType?: number | undefined
  readonly vendor?: string | undefined
  readonly product?: string | undefined
  /** `uname -r`; known only when a proc root was given. */
  readonly kernelRelease?: string | undefined
  /** ASUS XG Mobile, where firmware tells: is it plugged in, is it switched on. */
  readonly xgMobile?:
    | {
        readonly connected?: boolean | undefined
        readonly enabled?: boolean | undefined
        /** The attribute that switches it on. */
        readonly switch: string
      }
    | undefined
  /** A Surface Book: its discrete GPU sits in the base, which comes off (ACPI device MSHW0153 with its driver). */
  readonly detachableBase: boolean
  /** The USB4/Thunderbolt bus type is registered: the `thunderbolt` module is loaded or built in. */
  readonly thunderboltBus: boolean
}

export type RuntimeStatus = 'active' | 'suspended' | 'suspending' | 'resuming' | 'unsupported' | 'error'

/** One function of a PCI device. */
export interface PciFunction {
  readonly address: string
  /** Directory relative to the sysfs root. */
  readonly path: string
  /** Addresses of the bridges above it, from the root port down. */
  readonly parents: readonly string[]
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
  readonly subsystemVendorId?: number | undefined
  readonly subsystemDeviceId?: number | undefined
  readonly pciClass?: number | undefined
  readonly driver?: string | undefined
  /** Read for GPUs, the bridges above them, host interfaces and the ports that lead to a cable; nobody else needs it. */
  readonly details?: PciDetails | undefined
}

export interface PciDetails {
  readonly removable?: 'removable' | 'fixed' | 'unknown' | undefined
  readonly bootVga?: boolean | undefined
  /** It is a virtual function (SR-IOV) of the device at this address: a share of a card, no card. */
  readonly physicalFunction?: string | undefined
  readonly runtimeStatus?: RuntimeStatus | undefined
  /** `D0` to `D3cold`. */
  readonly powerState?: string | undefined
  /** Where ACPI has it: `\_SB_.PC00.TRP0`. */
  readonly acpiPath?: string | undefined
  readonly iommuGroup?: string | undefined
  readonly bars: readonly Bar[]
  /** Largest size each resizable BAR could have, by BAR index; only of a device that is awake. */
  readonly largestBarBytes: ReadonlyMap<number, number>
  readonly vramBytes?: number | undefined
  /** Only of a device that is awake. */
  readonly link?: PciLink | undefined
  /** 64-bit Device Serial Number as 16 hex digits. */
  readonly serial?: string | undefined
  /** The kernel has a serial number but only root may read it. */
  readonly serialForbidden: boolean
}

/** A PCI Express link as its lower end reports it. */
export interface PciLink {
  readonly gtPerSecond?: number | undefined
  readonly lanes?: number | undefined
  readonly maxGtPerSecond?: number | undefined
  readonly maxLanes?: number | undefined
  /** The kernel refused to read the current link (EINVAL), or configuration space is all-ones: the device is gone. */
  readonly dead: boolean
}

export interface ThunderboltTopology {
  readonly domains: readonly ThunderboltDomain[]
  /** Host routers and boxes; hosts on the other end of a cable are `peers`. */
  readonly routers: readonly ThunderboltRouter[]
  readonly retimers: readonly ThunderboltRetimer[]
  readonly peers: readonly ThunderboltPeer[]
  readonly ports: readonly Usb4Port[]
}

export interface ThunderboltDomain {
  /** `domain0`. */
  readonly name: string
  readonly index: number
  /** PCI address of its host interface. */
  readonly hostInterface?: string | undefined
  readonly security?: string | undefined
  readonly iommuDmaProtection?: boolean | undefined
  readonly deauthorization?: boolean | undefined
}

export interface LaneRate {
  readonly lanes?: number | undefined
  /** Per lane. */
  readonly gbps?: number | undefined
}

export interface ThunderboltRouter {
  /** `0-301`: domain 0, out of host port 1, then out of port 3 of the first box. */
  readonly name: string
  readonly path: string
  readonly domain: number
  /** Port numbers from the host on; empty for the host router. */
  readonly hops: readonly number[]
  /** Name of the router it is plugged into; `undefined` for the host router. */
  readonly parent?: string | undefined
  readonly isHost: boolean
  readonly uniqueId?: string | undefined
  /** 0 not allowed, 1 allowed, 2 allowed by key; absent where the security level hides it. */
  readonly authorized?: number | undefined
  readonly boot?: boolean | undefined
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
  readonly vendorName?: string | undefined
  readonly deviceName?: string | undefined
  readonly generation?: number | undefined
  readonly firmwareVersion?: string | undefined
  /** The box's receiver: host to device. */
  readonly receive: LaneRate
  /** The box's transmitter: device to host. */
  readonly transmit: LaneRate
  /** `1.0` or `2.0` of USB4 routers, from the uevent. */
  readonly usb4Version?: string | undefined
  readonly usb4Type?: 'host' | 'hub' | 'device' | undefined
}

export interface ThunderboltRetimer {
  readonly name: string
  readonly router: string
  readonly port: number
  readonly vendorId?: number | undefined
  readonly deviceId?: number | undefined
}

/** Another computer on the other end of a cable. */
export interface ThunderboltPeer {
  readonly name: string
  readonly domain: number
  readonly uniqueId?: string | undefined
  /** What the other computer calls itself; cleaned of control characters, still foreign text. */
  readonly hostName?: string | undefined
}

/** `usb4_port1` of a router. */
export interface Usb4Port {
  readonly router: string
  readonly port: number
  readonly link?: 'usb4' | 'tbt' | 'none' | undefined
  /** `port0` of the Type-C class, where the firmware says which connector it is. */
  readonly typecPort?: string | undefined
}

export interface TypecPort {
  readonly name: string
  readonly dataRole?: string | undefined
  readonly powerRole?: string | undefined
  readonly powerOperationMode?: string | undefined
  /** What is plugged in; absent when nothing is. */
  readonly partner?: TypecPartner | undefined
}

export interface TypecPartner {
  readonly alternateModes: readonly { readonly svid: number; readonly active?: boolean | undefined }[]
  /** The most it offers to send over the cable, in watts. */
  readonly sourceWatts?: number | undefined
}

export interface DrmCard {
  /** `card1`. */
  readonly name: string
  /** Absent for cards that are no PCI device: DisplayLink, vkms, the firmware framebuffer. */
  readonly pciAddress?: string | undefined
  /** `renderD129`, where the driver has one. */
  readonly renderNode?: string | undefined
  readonly connectors: readonly {
    /** `DP-1`. */
    readonly name: string
    readonly status?: 'connected' | 'disconnected' | 'unknown' | undefined
  }[]
}
