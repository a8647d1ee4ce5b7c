import { linkReport, ThunderboltSpeed } from '@egpu/core'
import type { LinkReport, PcieHop } from '@egpu/core'
import { pathOf, segmentOf } from '../registry/picture.ts'
import type { RegistryNode } from '../registry/picture.ts'
import { asInteger } from '../registry/value.ts'
import { isTunnelled, pciId, pciPath, readLink } from './pci.ts'
import { chainOf } from './router.ts'
import type { Router } from './router.ts'

/** What connects a GPU: every PCI Express hop of its path and, where its router is known, the cables to it. */
export function describeLink(gpu: RegistryNode, router: Router | undefined): LinkReport {
  return linkReport({ ...describeCables(router), hops: findHops(pciPath(gpu)) })
}

/** The cables between the host and a router: what the weakest end is labelled, what the slowest trained to. */
export function describeCables(router: Router | undefined): Pick<LinkReport, 'sticker' | 'trained'> {
  if (router === undefined) return {}
  const chain = chainOf(router)
  return {
    sticker: weakest(chain.map((one) => one.generation)),
    trained: slowest(chain.filter((one) => one.parent !== undefined).map((one) => one.trained)),
  }
}

/** Sticker, trained and downgrade of the cables alone. */
export function describeCable(router: Router): Pick<LinkReport, 'sticker' | 'trained' | 'downgrade'> {
  const { sticker, trained, downgrade } = linkReport(describeCables(router))
  return { sticker, trained, downgrade }
}

const generations: readonly ThunderboltSpeed[] = [
  ThunderboltSpeed.TB1,
  ThunderboltSpeed.TB2,
  ThunderboltSpeed.TB3,
  ThunderboltSpeed.TB4,
  ThunderboltSpeed.TB5,
]

/** One that is unknown makes the whole unknown: it may be the weakest. */
function weakest(all: readonly (ThunderboltSpeed | undefined)[]): ThunderboltSpeed | undefined {
  if (all.includes(undefined)) return undefined
  return generations.find((generation) => all.includes(generation))
}

function slowest(all: readonly LinkReport['trained'][]): LinkReport['trained'] {
  if (all.includes(undefined)) return undefined
  return all.reduce((least, one) => (rateOf(one) < rateOf(least) ? one : least), all[0])
}

function rateOf(trained: LinkReport['trained']): number {
  const lanes = trained?.toDevice
  return lanes === undefined ? 0 : lanes.lanes * lanes.gbpsPerLane
}

/**
 * The links of a path. Bridges come in pairs, the upstream and the downstream port of one switch, with no link between
 * them; so counted from the GPU every other function is the lower end of a link. Where the tunnel begins, the upstream
 * port of the box is the lower end of a link that does not exist: what it reports is fiction, hence `virtual`.
 */
function findHops(path: readonly RegistryNode[]): readonly Omit<PcieHop, 'effectiveGBps'>[] {
  const last = path.length - 1
  return path.flatMap((lower, index) => {
    const upper = path[index - 1]
    const isVirtual = startsTunnel(lower, upper)
    const isLowerEnd = (last - index) % 2 === 0 && upper !== undefined
    if (!isVirtual && !isLowerEnd) return []
    const kind = isVirtual ? 'virtual' : isOnCard(path, index) ? 'internal' : 'real'
    return [describeHop(lower, upper, kind)]
  })
}

/** The first function on the far side of a cable; behind a chained box, where the far end of the tunnel changes. */
function startsTunnel(node: RegistryNode, upper: RegistryNode | undefined): boolean {
  if (!isTunnelled(node)) return false
  if (upper === undefined || !isTunnelled(upper)) return true
  const guid = asInteger(node.properties.get('Tunnel Endpoint GUID'))
  return guid !== undefined && guid !== asInteger(upper.properties.get('Tunnel Endpoint GUID'))
}

/**
 * Cards of AMD and Intel carry a switch of their own: below the link into the slot comes another, of the card's maker,
 * that may say x16 behind any cable.
 */
function isOnCard(path: readonly RegistryNode[], index: number): boolean {
  const [slotLink, bridge] = [path[index - 2], path[index - 1]]
  if (slotLink === undefined || bridge === undefined || startsTunnel(slotLink, path[index - 3])) return false
  const maker = pciId(path[path.length - 1] as RegistryNode, 'vendor-id')
  return maker !== undefined && pciId(bridge, 'vendor-id') === maker
}

function describeHop(
  lower: RegistryNode,
  upper: RegistryNode | undefined,
  kind: PcieHop['kind'],
): Omit<PcieHop, 'effectiveGBps'> {
  const own = readLink(lower.properties.get('IOPCIExpressLinkStatus'))
  const limit = readLink(lower.properties.get('IOPCIExpressLinkCapabilities'))
  const upperLimit = readLink(upper?.properties.get('IOPCIExpressLinkCapabilities'))
  return {
    id: pathOf(lower),
    name: segmentOf(lower),
    kind,
    lanes: own.lanes,
    gtPerSecond: own.gtPerSecond,
    maxLanes: smaller(limit.lanes, upperLimit.lanes),
    maxGtPerSecond: smaller(limit.gtPerSecond, upperLimit.gtPerSecond),
  }
}

/** What both ends can do; unknown unless both tell. */
function smaller(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? undefined : Math.min(one, other)
}
