import { cardSwitchOf } from '../data/card-switches.ts'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import { bridgesAbove } from '../topology/functions.ts'
import type { TunnelPort } from '../topology/tunnels.ts'
import type { PciFunction, Topology } from '../topology/types.ts'

/** The bridges that belong to boxes: below the cable port, without the card's own switch. */
export function boxBridges(topology: Topology, gpu: PciFunction, tunnel: TunnelPort | undefined): PciFunction[] {
  const bridges = bridgesAbove(topology, gpu)
  const start = tunnel === undefined ? 1 : bridges.findIndex(({ address }) => address === tunnel.address) + 1
  return bridges.slice(start).filter((bridge) => cardSwitchOf(bridge) === undefined)
}

/**
 * In the how-manieth box of the chain a GPU sits, 1 for the first; 0 when there is no switch at all. Every box adds one
 * switch, which is two bridges. Switches that are not Thunderbolt's (in boxes with several slots) do not count as long
 * as some are.
 */
export function nestingDepth(boxes: readonly PciFunction[]): number {
  const known = boxes.filter((bridge) => thunderboltBridgeOf(bridge) !== undefined)
  return Math.ceil((known.length > 0 ? known : boxes).length / 2)
}
