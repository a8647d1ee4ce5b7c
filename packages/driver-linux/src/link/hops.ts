import type { LinkFacts, PcieHop } from '@egpu/core'
import { cardSwitchOf } from '../data/card-switches.ts'
import { thunderboltBridgeOf } from '../data/thunderbolt-bridges.ts'
import { bridgesAbove } from '../topology/functions.ts'
import type { TunnelPort } from '../topology/tunnels.ts'
import type { PciFunction, PciLink, Topology } from '../topology/types.ts'

type Hop = NonNullable<LinkFacts['hops']>[number]

/**
 * The links from the root port down to the GPU. Below a root port bridges come in pairs, upstream and downstream port
 * of one switch: links are those *between* pairs, the way through a switch is none. A link is read at both ends, and
 * what both can do is the smaller of the two.
 */
export function hopsTo(topology: Topology, gpu: PciFunction, tunnel: TunnelPort | undefined): readonly Hop[] {
  const chain = [...bridgesAbove(topology, gpu), gpu]
  const cable = tunnel === undefined ? -1 : chain.findIndex(({ address }) => address === tunnel.address)
  const hops: Hop[] = []
  for (let index = 1; index < chain.length; index += 2) {
    const upper = chain[index - 1] as PciFunction
    const lower = chain[index] as PciFunction
    const kind = kindOf(upper, lower, cable >= 0 && index > cable, index === cable + 1)
    hops.push({
      id: lower.address,
      name: thunderboltBridgeOf(lower)?.name,
      kind,
      // What a tunnelled hop reports, 2.5 GT/s, is made up and not passed on.
      ...(kind === 'virtual' ? {} : linkOf(upper.details?.link, lower.details?.link)),
    })
  }
  return hops
}

function kindOf(upper: PciFunction, lower: PciFunction, beyondCable: boolean, firstBeyond: boolean): PcieHop['kind'] {
  if (cardSwitchOf(upper) !== undefined) return 'internal'
  if (beyondCable && (firstBeyond || thunderboltBridgeOf(lower) !== undefined)) return 'virtual'
  return 'real'
}

function linkOf(upper: PciLink | undefined, lower: PciLink | undefined): Omit<Hop, 'id' | 'name' | 'kind'> {
  return {
    lanes: lower?.lanes ?? upper?.lanes,
    gtPerSecond: lower?.gtPerSecond ?? upper?.gtPerSecond,
    maxLanes: least(upper?.maxLanes, lower?.maxLanes),
    maxGtPerSecond: least(upper?.maxGtPerSecond, lower?.maxGtPerSecond),
  }
}

/** Of an end that could not be read nothing is known, so nothing is known of both. */
function least(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? undefined : Math.min(one, other)
}
