import { segmentOf, upward } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture } from '../registry/picture.ts'
import { asInteger, asNumber, asText } from '../registry/value.ts'
import { formatUid } from './router.ts'
import type { Router } from './router.ts'

/** How a PCI device was found to sit behind a router, best first. */
export type JoinKey = 'tunnel-endpoint-guid' | 'thunderbolt-entry-id' | 'pci-path' | 'port-number'

export interface Join {
  readonly router: Router
  readonly by: JoinKey
}

/**
 * The router a tunnelled PCI device sits behind. PCI and Thunderbolt are separate branches of the registry that point
 * at each other; when none of the pointers leads to exactly one router, the answer is unknown.
 */
export function findRouterOf(
  device: RegistryNode,
  routers: readonly Router[],
  picture: RegistryPicture,
): Join | undefined {
  const byGuid = joinByGuid(device, routers)
  if (byGuid !== undefined) return { router: byGuid, by: 'tunnel-endpoint-guid' }
  const byEntry = joinByEntryId(device, routers, picture)
  if (byEntry !== undefined) return { router: byEntry, by: 'thunderbolt-entry-id' }
  const byPath = joinByPciPath(device, routers, picture)
  if (byPath !== undefined) return { router: byPath, by: 'pci-path' }
  const byNumber = joinByPortNumber(device, routers)
  return byNumber === undefined ? undefined : { router: byNumber, by: 'port-number' }
}

/** The tunnel's bridge knows the UID of the router at the far end, last byte first. The nearest bridge is the one. */
function joinByGuid(device: RegistryNode, routers: readonly Router[]): Router | undefined {
  const guid = asInteger(nearest(device, 'Tunnel Endpoint GUID'))
  if (guid === undefined) return undefined
  const uid = formatUid(BigInt.asUintN(64, guid))
  return routers.find((router) => !router.isHost && router.uid === uid)
}

/** The tunnel's bridge knows the registry entry of the port that the tunnel starts or ends in. */
function joinByEntryId(device: RegistryNode, routers: readonly Router[], picture: RegistryPicture): Router | undefined {
  const id = asInteger(nearest(device, 'Thunderbolt Entry ID'))
  const port = id === undefined ? undefined : picture.nodes.get(id)
  return port === undefined ? undefined : behindPort(port, routers)
}

/** A PCI Express port of a router knows the bridge it leads to, by entry id and by path; the nearest bridge wins. */
function joinByPciPath(device: RegistryNode, routers: readonly Router[], picture: RegistryPicture): Router | undefined {
  const ports = picture.withRole('port')
  for (const bridge of upward(device)) {
    for (const port of ports) {
      const pointsHere =
        asInteger(port.properties.get('PCI Entry ID')) === bridge.id ||
        pathLeadsTo(asText(port.properties.get('PCI Path')), bridge)
      const router = pointsHere ? behindPort(port, routers) : undefined
      if (router !== undefined) return router
    }
  }
  return undefined
}

/** On Apple silicon `apciec1` and `acio1` serve the same receptacle. */
function joinByPortNumber(device: RegistryNode, routers: readonly Router[]): Router | undefined {
  const index = numberIn(device, /^apciec(\d+)$/)
  if (index === undefined) return undefined
  return only(routers.filter((router) => !router.isHost && numberIn(router.node, /^acio(\d+)$/) === index))
}

/**
 * The router on the far side of a PCI Express adapter. The adapter of a box faces up and belongs to it; that of a host
 * or hub faces down, and leads to the one router plugged into it, if it is one. A router with nothing plugged into it
 * can only mean itself: JHL9580 is seen to swap its adapter types.
 */
function behindPort(port: RegistryNode, routers: readonly Router[]): Router | undefined {
  const owner = routers.find((router) => router.node === [...upward(port)].find((one) => one.roles.has('switch')))
  const facesUp = asNumber(port.properties.get('Adapter Type')) === 0x100102
  if (owner === undefined) return undefined
  const children = routers.filter((router) => router.parent === owner)
  if (!owner.isHost && (facesUp || children.length === 0)) return owner
  return only(children)
}

function nearest(device: RegistryNode, key: string): ReturnType<RegistryNode['properties']['get']> {
  for (const node of upward(device)) if (node.properties.has(key)) return node.properties.get(key)
  return undefined
}

/** Whether a path of the kernel ends at this entry. It starts below the platform's own entry, which it leaves out. */
function pathLeadsTo(path: string | undefined, node: RegistryNode): boolean {
  if (path === undefined) return false
  const wanted = path
    .replace(/^IOService:\/*/, '')
    .split('/')
    .reverse()
  const chain = [...upward(node)]
  return (
    wanted.length > 1 && wanted.length <= chain.length && wanted.every((one, index) => isSegment(one, chain[index]))
  )
}

/** Paths leave out some locations. */
function isSegment(text: string, node: RegistryNode | undefined): boolean {
  return node !== undefined && (text === segmentOf(node) || text === node.name)
}

function numberIn(node: RegistryNode, pattern: RegExp): string | undefined {
  for (const { name } of upward(node)) {
    const match = pattern.exec(name)
    if (match !== null) return match[1]
  }
  return undefined
}

function only<T>(items: readonly T[]): T | undefined {
  return items.length === 1 ? items[0] : undefined
}
