import { pairedHostInterfaceOf } from '../data/host-interfaces.ts'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import { tunnelPortOf } from '../data/tunnel-ports.ts'
import { bridgesAbove, isBridge } from './functions.ts'
import type { PciFunction, Topology } from './types.ts'

/** Why a port is known to lead into a cable, strongest first. */
export type TunnelReason =
  /** The kernel linked it with a host interface, from ACPI's `usb4-host-interface`. */
  | 'device-link'
  /** Its PCI id is in the table. */
  | 'known-id'
  /** It is a downstream port of a discrete Thunderbolt controller: the host interface hangs below the same switch. */
  | 'discrete-controller'
  /** 00:07.x beside an Intel host interface at 00:0d.2 or 00:0d.3. */
  | 'function-pair'
  /** ACPI calls it TRP0 to TRP3, Intel's name for Thunderbolt root ports. */
  | 'acpi-name'

/** The PCI Express port of the host whose other side is the cable. Everything below it is outside the machine. */
export interface TunnelPort {
  readonly address: string
  readonly reasons: readonly TunnelReason[]
  /** Address of the host interface of the same controller, where it is known. */
  readonly hostInterface?: string | undefined
  /** Which port of its controller, counted from 0, where the numbering is known. */
  readonly ordinal?: number | undefined
  /** True for controllers on a card or soldered beside the processor: what is above the port is a real link. */
  readonly discrete: boolean
}

/** The tunnel port that `device` hangs below, if it does. */
export function tunnelPortAbove(topology: Topology, device: PciFunction): TunnelPort | undefined {
  const bridges = bridgesAbove(topology, device)
  const root = bridges[0]
  if (root === undefined) return undefined
  return discretePort(topology, bridges) ?? linkedPort(topology, bridges) ?? integratedPort(topology, root)
}

/** Every port of the machine that leads to a cable, in use or not. */
export function tunnelPortsOf(topology: Topology): readonly TunnelPort[] {
  const ports: TunnelPort[] = []
  for (const device of topology.pci.values()) {
    if (!isBridge(device)) continue
    const port =
      device.parents.length === 0
        ? integratedPort(topology, device)
        : (discretePort(topology, [...bridgesAbove(topology, device), device]) ?? linkedPort(topology, [device]))
    if (port?.address === device.address) ports.push(port)
  }
  return ports
}

/** A downstream port that ACPI links with a host interface: a discrete controller, of whatever make. */
function linkedPort(topology: Topology, bridges: readonly PciFunction[]): TunnelPort | undefined {
  const port = bridges.find(
    ({ address, parents }) => parents.length > 0 && linkedInterface(topology, address) !== undefined,
  )
  if (port === undefined) return undefined
  const hostInterface = linkedInterface(topology, port.address)
  return { address: port.address, reasons: ['device-link'], hostInterface, ordinal: undefined, discrete: true }
}

function linkedInterface(topology: Topology, address: string): string | undefined {
  return topology.deviceLinks.flatMap((pair) =>
    pair.includes(address) ? pair.filter((end) => topology.hostInterfaces.includes(end)) : [],
  )[0]
}

function integratedPort(topology: Topology, root: PciFunction): TunnelPort | undefined {
  const reasons: TunnelReason[] = []
  const linked = linkedInterface(topology, root.address)
  if (linked !== undefined) reasons.push('device-link')
  if (tunnelPortOf(root) !== undefined) reasons.push('known-id')
  const paired = pairedInterface(topology, root)
  if (paired !== undefined) reasons.push('function-pair')
  const trp = /\.TRP([0-3])$/.exec(root.details?.acpiPath ?? '')?.[1]
  if (trp !== undefined) reasons.push('acpi-name')
  if (reasons.length === 0) return undefined
  const hostInterface = linked ?? paired
  const ordinal = trp === undefined ? ordinalOf(topology, root, hostInterface) : Number(trp) % 2
  return { address: root.address, reasons, hostInterface, ordinal, discrete: false }
}

/** 00:07.0 and 00:07.1 belong to 00:0d.2, 00:07.2 and 00:07.3 to 00:0d.3. */
function pairedInterface(topology: Topology, root: PciFunction): string | undefined {
  const match = /^([\da-f]+:[\da-f]{2}):07\.([0-3])$/.exec(root.address)
  if (match === null || root.vendorId !== 0x8086) return undefined
  const address = `${match[1]}:0d.${Number(match[2]) < 2 ? 2 : 3}`
  const candidate = topology.pci.get(address)
  return candidate !== undefined && pairedHostInterfaceOf(candidate) !== undefined ? address : undefined
}

/** Intel's integrated ports are functions 0 to 3 of one device, two per host interface. */
function ordinalOf(topology: Topology, root: PciFunction, hostInterface: string | undefined): number | undefined {
  if (hostInterface === undefined || root.vendorId !== 0x8086) return undefined
  const index = /:07\.([0-3])$/.exec(root.address)?.[1]
  return index !== undefined && pairedInterface(topology, root) === hostInterface ? Number(index) % 2 : undefined
}

/**
 * A discrete controller is a switch below some root port: its host interface hangs below one downstream port, its USB
 * controller below another, and every further downstream port is a cable. The first switch is therefore the host's own,
 * whatever its `removable` mark says (kernels before the 6.13 rule mark it).
 */
function discretePort(topology: Topology, bridges: readonly PciFunction[]): TunnelPort | undefined {
  for (const [index, upstream] of bridges.entries()) {
    const downstream = bridges[index + 1]
    if (index === 0 || downstream === undefined || thunderboltBridgeOf(upstream) === undefined) continue
    const hostInterface = interfaceBelow(topology, upstream)
    if (hostInterface === undefined || hostInterface.parents.includes(downstream.address)) continue
    return {
      address: downstream.address,
      reasons: ['discrete-controller'],
      hostInterface: hostInterface.address,
      ordinal: undefined,
      discrete: true,
    }
  }
  return undefined
}

/** The host interface that hangs two bridges below a controller's upstream port, and not deeper in a box. */
function interfaceBelow(topology: Topology, upstream: PciFunction): PciFunction | undefined {
  const depth = upstream.parents.length
  return topology.hostInterfaces
    .flatMap((address) => topology.pci.get(address) ?? [])
    .find(({ parents }) => parents.length === depth + 2 && parents[depth] === upstream.address)
}
