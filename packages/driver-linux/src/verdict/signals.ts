import type { Evidence } from '@egpu/core'
import { addInBoardVendors } from '../data/board-vendors.ts'
import { gpuMakers, hypervisors } from '../data/hypervisors.ts'
import { cardSwitchOf } from '../data/card-switches.ts'
import { portableChassisTypes } from '../data/portable-chassis.ts'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import { bridgesAbove, deviceAddressOf, functionsOf, isGpu } from '../topology/functions.ts'
import { tunnelPortAbove } from '../topology/tunnels.ts'
import type { TunnelPort, TunnelReason } from '../topology/tunnels.ts'
import type { PciFunction, Topology } from '../topology/types.ts'

/** What every signal may look at. */
export interface Subject {
  readonly topology: Topology
  readonly gpu: PciFunction
  /** The port that leads to a cable, if the GPU hangs below one. */
  readonly tunnel: TunnelPort | undefined
}

/** One thing to look at; silent when it has nothing to say. */
export type Signal = (subject: Subject) => Evidence | undefined

/** The port above is one whose other side is a cable. Nothing is soldered behind such a port. */
const tunnelRootPort: Signal = ({ topology, tunnel }) => {
  if (tunnel === undefined || tunnel.discrete) return undefined
  const strongest = tunnel.reasons[0] as TunnelReason
  return {
    signal: 'tunnel-root-port',
    value: tunnel.reasons.join(', '),
    weight: tunnelWeights[strongest],
    points: 'external',
    source: topology.pci.get(tunnel.address)?.path,
  }
}

const tunnelWeights: Readonly<Record<TunnelReason, number>> = {
  'device-link': 0.95,
  'known-id': 0.9,
  'discrete-controller': 0.9,
  'function-pair': 0.8,
  'acpi-name': 0.8,
}

/** Below a downstream port of a discrete controller that does not lead to its own host interface: the cable. */
const belowDiscreteController: Signal = ({ topology, tunnel }) =>
  tunnel?.discrete === true
    ? {
        signal: 'below-discrete-controller',
        value: tunnel.hostInterface,
        weight: tunnelWeights['discrete-controller'],
        points: 'external',
        source: topology.pci.get(tunnel.address)?.path,
      }
    : undefined

/**
 * The kernel's own mark. Not exhaustive (other architectures, coreboot, OCuLink never have it), and on kernels before
 * the 6.13 rule also on a discrete controller's own switch, but a GPU that has it is on a cable.
 */
const removableMark: Signal = ({ gpu }) =>
  gpu.details?.removable === 'removable'
    ? { signal: 'pci-removable', value: 'removable', weight: 0.7, points: 'external', source: `${gpu.path}/removable` }
    : undefined

/** A switch of a Thunderbolt chip on the box's side of the cable, or above a GPU when no host side is known. */
const thunderboltSwitch: Signal = ({ topology, gpu, tunnel }) => {
  const bridges = bridgesAbove(topology, gpu)
  const start = tunnel === undefined ? 1 : bridges.findIndex(({ address }) => address === tunnel.address) + 1
  const found = bridges.slice(start).find((bridge) => thunderboltBridgeOf(bridge) !== undefined)
  if (found === undefined) return undefined
  return {
    signal: 'thunderbolt-switch',
    value: thunderboltBridgeOf(found)?.name,
    weight: 0.6,
    points: 'external',
    source: found.path,
  }
}

/** Not behind a bridge at all: a function of the processor or the chipset. */
const onRootBus: Signal = ({ topology, gpu }) =>
  gpu.parents.length === 0
    ? {
        signal: 'on-root-bus',
        value: true,
        weight: isPassedThrough(topology, gpu) ? madeUpPlace : 0.95,
        points: 'internal',
        source: gpu.path,
      }
    : undefined

/** What the place on the bus tells in a virtual machine, which puts real GPUs wherever it likes. */
const madeUpPlace = 0.5

function isPassedThrough({ machine: { vendor, product } }: Topology, { vendorId }: PciFunction): boolean {
  if (!gpuMakers.has(vendorId)) return false
  return hypervisors.some((one) => vendor?.startsWith(one.vendor) === true && (one.product ?? product) === product)
}

/** AMD processors put their GPU behind an internal bridge, on one device with their security processor and USB. */
const processorSiblings: Signal = ({ topology, gpu }) => {
  const sibling = functionsOf(topology, gpu.address).find(({ vendorId }) => vendorId === 0x1022)
  return sibling === undefined
    ? undefined
    : { signal: 'processor-siblings', value: sibling.address, weight: 0.95, points: 'internal', source: sibling.path }
}

/** The GPU the firmware showed its picture on. External ones can be that too, so it only counts a little. */
const bootDisplay: Signal = ({ gpu }) =>
  gpu.details?.bootVga === true
    ? { signal: 'boot-display', value: true, weight: 0.2, points: 'internal', source: `${gpu.path}/boot_vga` }
    : undefined

/** ASUS firmware says the XG Mobile is plugged in and on; then the laptop's own discrete GPU is switched off. */
const xgMobile: Signal = ({ topology, gpu, tunnel }) => {
  const state = topology.machine.xgMobile
  if (state?.connected !== true || state.enabled !== true || tunnel !== undefined) return undefined
  if (!isXgMobileCandidate(topology, gpu)) return undefined
  return { signal: 'xg-mobile-connected', value: true, weight: 0.9, points: 'external', source: 'asus-armoury' }
}

/** The only GPU that is neither part of the processor nor on a Thunderbolt cable. */
function isXgMobileCandidate(topology: Topology, gpu: PciFunction): boolean {
  const discrete = [...topology.pci.values()].filter(
    (device) => isGpu(device) && !isProcessorGpu(topology, device) && tunnelPortAbove(topology, device) === undefined,
  )
  return (
    discrete.every(({ address }) => deviceAddressOf(address) === deviceAddressOf(gpu.address)) &&
    !isProcessorGpu(topology, gpu)
  )
}

function isProcessorGpu(topology: Topology, gpu: PciFunction): boolean {
  return gpu.parents.length === 0 || functionsOf(topology, gpu.address).some(({ vendorId }) => vendorId === 0x1022)
}

/** OCuLink (SFF-8611 with four lanes) and M.2 carry no more. */
const cableLanes = 4

/** Four lanes or fewer to a card that could use sixteen, on a machine that has no slot for cards. */
const narrowLink: Signal = (subject) => {
  const { gpu, topology } = subject
  if (!isPortable(topology) || subject.tunnel !== undefined || isProcessorGpu(topology, gpu)) return undefined
  const value = narrowLanes(topology, gpu)
  if (value === undefined) return undefined
  return {
    signal: 'narrow-link-on-portable',
    value,
    weight: 0.3,
    points: 'external',
    source: `${cardTop(topology, gpu).path}/current_link_width`,
  }
}

/** `x4 of x16`, of a card that has no more lanes than such a cable. */
function narrowLanes(topology: Topology, gpu: PciFunction): string | undefined {
  const { lanes, maxLanes } = cardTop(topology, gpu).details?.link ?? {}
  if (lanes === undefined || lanes > cableLanes || maxLanes === undefined || maxLanes < 16) return undefined
  return `x${lanes} of x${maxLanes}`
}

/** A card from a maker who only makes cards, on a machine that has no slot for one, and not on a wide link. */
const addInBoard: Signal = ({ gpu, topology, tunnel }) => {
  if (!isPortable(topology) || tunnel !== undefined || isProcessorGpu(topology, gpu)) return undefined
  if ((cardTop(topology, gpu).details?.link?.lanes ?? 0) > cableLanes) return undefined
  const vendor = gpu.subsystemVendorId === undefined ? undefined : addInBoardVendors.get(gpu.subsystemVendorId)
  if (vendor === undefined) return undefined
  return {
    signal: 'card-maker-on-portable',
    value: vendor,
    weight: 0.4,
    points: 'external',
    source: `${gpu.path}/subsystem_vendor`,
  }
}

/** Hot-plug slots are no proof: internal GPUs of laptops sit in them as well. Named so that a person sees it. */
const hotplugSlot: Signal = ({ topology, gpu, tunnel }) => {
  if (tunnel !== undefined || gpu.parents.length === 0) return undefined
  const slot = [deviceAddressOf(gpu.address), ...gpu.parents.map(deviceAddressOf)].find((address) =>
    topology.hotplugSlots.includes(address),
  )
  return slot === undefined
    ? undefined
    : { signal: 'hotplug-slot', value: slot, weight: 0, points: 'neither', source: 'bus/pci/slots' }
}

/** A Surface Book keeps its discrete GPU in the base: it comes off, but it is the machine's own. */
const detachableBase: Signal = ({ topology, gpu }) =>
  topology.machine.detachableBase && gpu.parents.length > 0
    ? { signal: 'detachable-base', value: true, weight: 0.8, points: 'internal', source: 'bus/platform/drivers' }
    : undefined

/**
 * Laptop makers give everything that is soldered to one board the same subsystem vendor and device, the processor's own
 * functions included. A card in a box has those of its maker.
 */
const sameBoard: Signal = ({ gpu, topology, tunnel }) => {
  const { subsystemVendorId: vendor, subsystemDeviceId: device } = gpu
  if (tunnel !== undefined || isProcessorGpu(topology, gpu)) return undefined
  // Without a board maker's id, chips show 0 or their own maker's.
  if (vendor === undefined || device === undefined || chipMakers.has(vendor)) return undefined
  const sibling = [...topology.pci.values()].find(
    (other) => other.parents.length === 0 && other.subsystemVendorId === vendor && other.subsystemDeviceId === device,
  )
  return sibling === undefined
    ? undefined
    : { signal: 'same-board', value: sibling.address, weight: 0.8, points: 'internal', source: sibling.path }
}

/** And Red Hat's 1af4, which QEMU gives to every device of a virtual machine, plugged in or not. */
const chipMakers: ReadonlySet<number> = new Set([0, 0x1002, 0x1022, 0x10de, 0x1af4, 0x8086, 0xffff])

/** What is left when nothing points to a cable. Counts for less where other signs say that there may be one. */
const noCable: Signal = (subject) => {
  const { gpu, tunnel } = subject
  if (gpu.parents.length === 0 || tunnel !== undefined || cableSigns.some((signal) => signal(subject) !== undefined)) {
    return undefined
  }
  return {
    signal: 'no-sign-of-a-cable',
    value: true,
    weight: noCableWeight(subject),
    points: 'internal',
    source: gpu.path,
  }
}

function noCableWeight(subject: Subject): number {
  const { topology, gpu } = subject
  if (narrowLink(subject) !== undefined || addInBoard(subject) !== undefined) return 0.3
  if (isPassedThrough(topology, gpu)) return madeUpPlace
  // On a machine with slots that is most likely a short slot, but OCuLink looks the same.
  return narrowLanes(topology, gpu) === undefined ? 0.85 : 0.7
}

const cableSigns: readonly Signal[] = [removableMark, thunderboltSwitch, xgMobile]

function isPortable({ machine }: Topology): boolean {
  return machine.chassisType !== undefined && portableChassisTypes.has(machine.chassisType)
}

/** The upper end of the card: its topmost own switch, or the GPU itself. Its link is the one in the connector. */
export function cardTop(topology: Topology, gpu: PciFunction): PciFunction {
  const own = bridgesAbove(topology, gpu).reverse()
  let top = gpu
  for (const bridge of own) {
    if (cardSwitchOf(bridge) === undefined) break
    top = bridge
  }
  return top
}

/** In the order a person would ask. */
export const signals: readonly Signal[] = [
  tunnelRootPort,
  belowDiscreteController,
  removableMark,
  thunderboltSwitch,
  xgMobile,
  onRootBus,
  processorSiblings,
  detachableBase,
  sameBoard,
  addInBoard,
  narrowLink,
  noCable,
  bootDisplay,
  hotplugSlot,
]
