import { ThunderboltSpeed } from '@egpu/core'
import type { Enclosure, LinkReport, TrainedLanes } from '@egpu/core'
import { above } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture } from '../registry/picture.ts'
import { asInteger, asNumber, asText } from '../registry/value.ts'
import type { RegistryValue } from '../registry/value.ts'
import { hostGeneration, hostInterfaceType } from './host.ts'

/** A Thunderbolt or USB4 router: the host's own, or one in a box, dock or display. */
export interface Router {
  readonly node: RegistryNode
  readonly isHost: boolean
  /** The router it is plugged into; `undefined` for the host's own. */
  readonly parent: Router | undefined
  /** Its UID as System Information writes it: `0x8087b6dc08810300`. */
  readonly uid: string | undefined
  /** The port of the parent that its cable is in. */
  readonly downstreamPort: RegistryNode | undefined
  readonly trained: LinkReport['trained']
  readonly generation: ThunderboltSpeed | undefined
}

/** Every router, hosts first. */
export function findRouters(picture: RegistryPicture): readonly Router[] {
  const routers = new Map<RegistryNode, Router>()
  const find = (node: RegistryNode): Router => {
    let router = routers.get(node)
    if (router === undefined) {
      const parentNode = [...above(node)].find((one) => one.roles.has('switch'))
      router = describeRouter(node, parentNode === undefined ? undefined : find(parentNode))
      routers.set(node, router)
    }
    return router
  }
  return picture
    .withRole('switch')
    .map(find)
    .sort((a, b) => chainOf(a).length - chainOf(b).length)
}

/** A router and those between it and the host, nearest first, the host's own included. */
export function chainOf(router: Router): readonly Router[] {
  return router.parent === undefined ? [router] : [router, ...chainOf(router.parent)]
}

function describeRouter(node: RegistryNode, parent: Router | undefined): Router {
  const depth = asNumber(node.properties.get('Depth'))
  const isHost = depth === undefined ? parent === undefined : depth === 0
  const ancestors = [...above(node)]
  const ports = ancestors.slice(0, parent === undefined ? 0 : ancestors.indexOf(parent.node))
  // Between two routers stand the port of the parent and, nearer, the one of this router itself.
  const downstreamPort = ports.findLast((one) => one.roles.has('port'))
  return {
    node,
    isHost,
    parent,
    uid: uidOf(node),
    downstreamPort,
    trained: downstreamPort === undefined ? undefined : readTrained(downstreamPort),
    generation: isHost ? hostGeneration(hostInterfaceType(node)) : deviceGeneration(node),
  }
}

/** The registry keeps it signed; a UID of zero is none. */
function uidOf(node: RegistryNode): string | undefined {
  const uid = asInteger(node.properties.get('UID'))
  return uid === undefined || uid === 0n ? undefined : formatUid(BigInt.asUintN(64, uid))
}

export function formatUid(uid: bigint): string {
  return `0x${uid.toString(16).padStart(16, '0')}`
}

/** Lane adapters count speed in the coding of the link registers (Linux, `tb_regs.h`). */
const gbpsPerLane: ReadonlyMap<number | undefined, number> = new Map([
  [8, 10],
  [4, 20],
  [2, 40],
])

/** Lanes from the host and back by the width register: one, two, three out and one back, one out and three back. */
const lanes: ReadonlyMap<number | undefined, readonly [toDevice: number, fromDevice: number]> = new Map([
  [1, [1, 1]],
  [2, [2, 2]],
  [4, [3, 1]],
  [8, [1, 3]],
])

/**
 * What a cable trained to. Only for a port that has a router below it: an idle one still says 10 Gb/s on one lane.
 */
export function readTrained(port: RegistryNode): LinkReport['trained'] {
  const speed = gbpsPerLane.get(asNumber(port.properties.get('Current Link Speed')))
  const width = lanes.get(asNumber(port.properties.get('Current Link Width')))
  if (speed === undefined || width === undefined) return undefined
  const direction = (count: number): TrainedLanes => ({ lanes: count, gbpsPerLane: speed })
  return { toDevice: direction(width[0]), fromDevice: direction(width[1]) }
}

/** Chips of boxes and docks by the class of their router. */
const chips: readonly (readonly [pattern: RegExp, generation: ThunderboltSpeed])[] = [
  [/Type1$/, ThunderboltSpeed.TB1],
  [/Type2$/, ThunderboltSpeed.TB2],
  [/Type3$/, ThunderboltSpeed.TB3],
  [/IntelJHL8440$/, ThunderboltSpeed.TB4],
  [/IntelJHL9[45]80$/, ThunderboltSpeed.TB5],
]

/** The upper three bits of the router's version byte are its USB4 version; older chips have none. */
function deviceGeneration(node: RegistryNode): ThunderboltSpeed | undefined {
  const version = usb4Version(node)
  if (version !== undefined && version >= 1) return version === 1 ? ThunderboltSpeed.TB4 : ThunderboltSpeed.TB5
  return (
    chips.find(([pattern]) => pattern.test(node.className))?.[1] ?? (version === 0 ? ThunderboltSpeed.TB3 : undefined)
  )
}

export function usb4Version(node: RegistryNode): number | undefined {
  const byte = asNumber(node.properties.get('Thunderbolt Version'))
  return byte === undefined || byte < 0 || byte > 255 ? undefined : byte >>> 5
}

/** How Linux counts: 4 is USB4 of either version. */
const linuxGenerations: Readonly<Record<ThunderboltSpeed, number>> = {
  [ThunderboltSpeed.TB1]: 1,
  [ThunderboltSpeed.TB2]: 2,
  [ThunderboltSpeed.TB3]: 3,
  [ThunderboltSpeed.TB4]: 4,
  [ThunderboltSpeed.TB5]: 4,
}

/** What `id` is when the router does not tell its UID: good until it is unplugged. */
export function enclosureIdOf(router: Router): string {
  return router.uid ?? `registry-entry-${router.node.id}`
}

/** The box a router sits in. */
export function describeEnclosure(router: Router, link: Enclosure['link']): Enclosure {
  const { properties } = router.node
  const name = asText(properties.get('Device Model Name'))
  const { parent } = router
  return {
    id: enclosureIdOf(router),
    name: name?.replace(unsupportedSuffix, ''),
    vendorName: asText(properties.get('Device Vendor Name')),
    thunderboltVendorId: thunderboltId(properties.get('Device Vendor ID')),
    thunderboltDeviceId: thunderboltId(properties.get('Device Model ID')),
    port: receptacleOf(router),
    parentId: parent === undefined || parent.isHost ? undefined : enclosureIdOf(parent),
    authorized: isBlocked(router) ? false : undefined,
    generation: router.generation === undefined ? undefined : linuxGenerations[router.generation],
    firmwareVersion: firmwareOf(router.node),
    link,
  }
}

function thunderboltId(value: RegistryValue | undefined): number | undefined {
  const id = asNumber(value)
  return id === undefined || id <= 0 || id > 0xffff ? undefined : id
}

/** macOS adds it to the name of a box whose Thunderbolt chip it refuses. */
const unsupportedSuffix = /\s*-\s*unsupported\s*$/i

export function isBlocked(router: Router): boolean {
  return unsupportedSuffix.test(asText(router.node.properties.get('Device Model Name')) ?? '')
}

/** `receptacle1`, numbered as on the case and in System Information; the first port of the way to it counts. */
export function receptacleOf(router: Router): string | undefined {
  const first = chainOf(router).findLast((one) => !one.isHost)
  return first?.downstreamPort === undefined ? undefined : receptacleNumber(first.downstreamPort)
}

export function receptacleNumber(port: RegistryNode): string | undefined {
  const socket = asText(port.properties.get('Socket ID'))
  return socket === undefined ? undefined : `receptacle${socket}`
}

/** `44.3`: the first part is hexadecimal. */
function firmwareOf(node: RegistryNode): string | undefined {
  const rom = asNumber(node.properties.get('ROM Version'))
  const revision = asNumber(node.properties.get('EEPROM Revision'))
  if (rom !== undefined && rom > 0) return revision === undefined ? rom.toString(16) : `${rom.toString(16)}.${revision}`
  return asText(node.properties.get('Firmware Version'))
}
