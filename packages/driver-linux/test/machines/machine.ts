import type { Finding } from '@egpu/core'
import type { Transport } from '@egpu/core'
import type { VerdictOverride } from '../../src/verdict/override.ts'
import type { Entry } from './tree.ts'

/** A machine somebody wrote down in public, as little as makes its sysfs tree. `build.ts` adds what the kernel implies. */
export interface Machine {
  /** Kebab-case. */
  readonly name: string
  /** Number in the list of cases, where it has one. */
  readonly case?: number | undefined
  /** Where the facts are public. */
  readonly origin: string
  /** How much of the tree the public facts give; the rest is `assumed`. */
  readonly facts: 'full' | 'partial' | 'synthetic'
  /** What was filled in so that there is a tree at all. */
  readonly assumed?: string | undefined
  readonly kernel?: string | undefined
  readonly dmi?: { readonly chassis?: number; readonly vendor?: string; readonly product?: string } | undefined
  readonly pci: readonly PciNode[]
  /** Root ports the firmware marks as leading outside; decides `removable` together with `removableRule`. */
  readonly externalFacing?: readonly string[] | undefined
  /**
   * Which rule marks devices `removable`: everything below an external-facing port (5.16 to 6.12), the stricter one
   * of arch/x86/pci/acpi.c (6.13, and stable kernels), or none (other architectures, older kernels).
   */
  readonly removableRule?: '5.16' | '6.13' | 'none' | undefined
  /** Root port and its host interface, from ACPI's `usb4-host-interface`. */
  readonly usb4Links?: readonly (readonly [rootPort: string, hostInterface: string])[] | undefined
  readonly thunderbolt?: readonly DomainNode[] | 'no-module' | undefined
  readonly cards?: readonly CardNode[] | undefined
  readonly typec?: readonly TypecNode[] | undefined
  readonly hotplugSlots?: Readonly<Record<string, string>> | undefined
  /** Anything else, by path from the root. */
  readonly files?: Readonly<Record<string, Entry>> | undefined
  readonly overrides?: readonly VerdictOverride[] | undefined
  readonly expected: Expected
}

export interface PciNode {
  /** `04:00.0`, in domain 0 unless it has four more digits. */
  readonly at: string
  /** `10de:2b85`. */
  readonly id: string
  readonly subsystem?: string | undefined
  /** Six digits. */
  readonly class: string
  readonly driver?: string | undefined
  readonly link?: LinkNode | undefined
  /** `active` in D0 unless said otherwise. */
  readonly sleep?: 'D3hot' | 'D3cold' | undefined
  /** Sizes in bytes; `unassigned` keeps the size and takes the address. */
  readonly bars?: readonly { readonly size: number; readonly prefetchable?: boolean; readonly unassigned?: boolean }[]
  readonly attributes?: Readonly<Record<string, Entry>> | undefined
  /** Only its `uevent`, for trees of many thousands. */
  readonly bare?: boolean | undefined
  readonly below?: readonly PciNode[] | undefined
}

export interface LinkNode {
  /** As printed, or `unreadable`. */
  readonly speed?: string | undefined
  readonly width?: string | undefined
  readonly maxSpeed?: string | undefined
  readonly maxWidth?: string | undefined
}

export interface DomainNode {
  readonly index: number
  /** PCI address of the host interface. */
  readonly nhi: string
  readonly security?: string | undefined
  readonly iommuDmaProtection?: '0' | '1' | undefined
  readonly bootAcl?: string | undefined
  /** The host router. */
  readonly host: {
    readonly generation: string
    readonly usb4?: string
    readonly deviceName?: string
    readonly vendorName?: string
  }
  readonly routers?: readonly RouterNode[] | undefined
  readonly retimers?: readonly string[] | undefined
  readonly peers?: readonly { readonly name: string; readonly hostName: string; readonly uuid: string }[] | undefined
  /** `link` of the host's USB4 ports, by port number, and their Type-C connector. */
  readonly ports?: Readonly<Record<number, { readonly link: string; readonly typec?: string }>> | undefined
}

export interface RouterNode {
  /** `0-1`. */
  readonly name: string
  readonly vendor: string
  readonly device: string
  readonly vendorName?: string | undefined
  readonly deviceName?: string | undefined
  readonly generation: string
  readonly rx: readonly [speed: string, lanes: string]
  readonly tx?: readonly [speed: string, lanes: string] | undefined
  /** Absent where the security level hides it. */
  readonly authorized?: string | undefined
  readonly boot?: string | undefined
  readonly uuid: string
  readonly nvm?: string | undefined
  readonly usb4?: { readonly version: string; readonly type: 'hub' | 'device' } | undefined
  readonly key?: string | undefined
}

export interface CardNode {
  readonly name: string
  /** Its PCI function; another path for cards that are not PCI. */
  readonly pci?: string | undefined
  readonly device?: string | undefined
  readonly render?: string | undefined
  readonly connectors?: Readonly<Record<string, 'connected' | 'disconnected' | 'unknown'>> | undefined
}

export interface TypecNode {
  readonly name: string
  readonly partner?:
    | {
        readonly modes?: readonly { readonly svid: string; readonly active: string }[]
        readonly source?: readonly [voltage: string, current: string]
      }
    | undefined
}

/** The whole right answer. */
export interface Expected {
  /** Every GPU, by PCI address. */
  readonly gpus: Readonly<Record<string, ExpectedGpu>>
  /** Every box, by id. */
  readonly enclosures: Readonly<Record<string, ExpectedEnclosure>>
  readonly findings: readonly ExpectedFinding[]
}

export interface ExpectedGpu {
  readonly key: string
  readonly verdict: 'external' | 'internal' | 'unknown'
  /** `high` is 0.8 and more: enough to act on. `medium` from 0.6. */
  readonly confidence: 'high' | 'medium' | 'low' | 'none'
  readonly transport?: Transport | undefined
  readonly stage: 'present' | 'ready' | 'lost'
  readonly driver?: string | undefined
  readonly enclosure?: string | undefined
  readonly port?: string | undefined
  readonly speed?: string | undefined
  readonly power?: string | undefined
  readonly displays?: readonly string[] | undefined
  /** What the link report says; absent for GPUs without a link. */
  readonly link?: ExpectedLink | undefined
}

export interface ExpectedLink {
  readonly sticker?: string | undefined
  /** `2x20/2x20`: to the device and back. */
  readonly trained?: string | undefined
  /** `02:00.0 virtual`, `04:00.0 real 16 x4`. */
  readonly hops: readonly string[]
  readonly bottleneck?: string | undefined
  /** To the device, in GB/s, to two digits. */
  readonly effective?: number | undefined
  readonly downgrade?: string | undefined
}

export interface ExpectedEnclosure {
  readonly name?: string | undefined
  readonly port: string
  readonly authorized?: boolean | undefined
  readonly parent?: string | undefined
  readonly sticker?: string | undefined
  readonly powerDeliveryWatts?: number | undefined
}

/** `enclosure-unauthorized error`: code and severity; order does not matter. */
export type ExpectedFinding = `${string} ${Finding['severity']}`
