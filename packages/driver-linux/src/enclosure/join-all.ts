import { tunnelPortAbove, tunnelPortsOf } from '../topology/tunnels.ts'
import type { TunnelPort } from '../topology/tunnels.ts'
import type { PciFunction, ThunderboltRouter, Topology } from '../topology/types.ts'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import type { JoinHints } from './hints.ts'
import { joinEnclosure } from './join.ts'
import type { Join } from './join.ts'
import { boxBridges } from './nesting.ts'

/** A GPU with the cable port above it and the box it is in. */
export interface JoinedGpu {
  readonly gpu: PciFunction
  readonly tunnel: TunnelPort | undefined
  readonly join: Join
  /** Its place in the box. */
  readonly slot?: number | undefined
}

const nowhere: Join = { candidates: [], evidence: [] }

/**
 * Finds the boxes of all GPUs together: a box hangs on one port, so a box that is certainly another port's is taken off
 * the list of those that are still open.
 */
export function joinAll(topology: Topology, gpus: readonly PciFunction[], hints: JoinHints = {}): readonly JoinedGpu[] {
  const boxes = topology.thunderbolt.routers.filter(({ isHost }) => !isHost)
  const open = gpus.map((gpu) => {
    const tunnel = tunnelPortAbove(topology, gpu)
    return {
      gpu,
      tunnel,
      join: mayBeBoxed(topology, gpu, tunnel) ? joinEnclosure(topology, gpu, tunnel, boxes, hints) : nowhere,
    }
  })
  const joined = open.map((entry) => {
    if (entry.join.candidates.length < 2) return entry
    const others = open.filter(({ tunnel }) => tunnel?.address !== entry.tunnel?.address)
    const taken = new Set(others.flatMap(({ join }) => (join.router === undefined ? [] : firstBoxOf(join.router))))
    const free = boxes.filter((router) => !taken.has(firstBoxOf(router)))
    return { ...entry, join: joinEnclosure(topology, entry.gpu, entry.tunnel, free, hints) }
  })
  return joined.map((entry) => {
    const { router } = entry.join
    return router === undefined ? entry : { ...entry, slot: slotIn(topology, entry, router) }
  })
}

/**
 * Behind a cable port, behind a Thunderbolt switch, or marked removable by the kernel on a machine whose cable ports are
 * not known. Where they are, a mark elsewhere comes from another kind of cable, or from a mistake of the firmware.
 */
function mayBeBoxed(topology: Topology, gpu: PciFunction, tunnel: TunnelPort | undefined): boolean {
  if (tunnel !== undefined) return true
  if (gpu.details?.removable === 'removable' && tunnelPortsOf(topology).length === 0) return true
  return boxBridges(topology, gpu, tunnel).some((bridge) => thunderboltBridgeOf(bridge) !== undefined)
}

/** Everything chained behind one port of the host shares that port. */
function firstBoxOf(router: ThunderboltRouter): string {
  return `${router.domain}-${router.hops[0]}`
}

/**
 * A number for the place in the box, which is the same whatever else is plugged in, on every port and after every start:
 * made of the device and function numbers of the downstream ports of the box's own switches. Those of one switch are 0
 * to 31, so that is what an ordinary box has.
 */
function slotIn(
  topology: Topology,
  { gpu, tunnel }: Pick<JoinedGpu, 'gpu' | 'tunnel'>,
  box: ThunderboltRouter,
): number {
  // Every box before it in the chain adds one switch, which is two bridges.
  const own = boxBridges(topology, gpu, tunnel).slice(2 * (box.hops.length - 1))
  return own
    .filter((_, index) => index % 2 === 1)
    .reduce((place, { address }) => {
      const [device = 0, fn = 0] = (/([\da-f]{2})\.([0-7])$/.exec(address) ?? [])
        .slice(1)
        .map((part) => parseInt(part, 16))
      return place * 256 + fn * 32 + device
    }, 0)
}

/**
 * Device and function numbers from the root port down: `07.0/00.0/01.0/00.0`. Root buses other than 0000:00 are named,
 * `40:01.1/00.0`: firmware gives them fixed numbers, and two of them hold the same devices.
 */
export function positionOf(device: PciFunction): string {
  const [root, ...below] = [...device.parents, device.address]
  return [
    root?.replace(/^0000:(?:00:)?/, ''),
    ...below.map((address) => address.slice(address.lastIndexOf(':') + 1)),
  ].join('/')
}
