import type { Enclosure } from '@egpu/core'
import type { DriverSnapshot } from '@egpu/core/driver'
import { above, pathOf } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture } from '../registry/picture.ts'
import { asText } from '../registry/value.ts'
import { parseSystemExtensions } from './extensions.ts'
import { findFindings } from './findings.ts'
import { describeAppleGpu, describeGpu } from './gpu.ts'
import type { DetectedGpu } from './gpu.ts'
import { describeHost } from './host.ts'
import { findRouterOf } from './join.ts'
import type { Join } from './join.ts'
import { describeCable } from './link.ts'
import { hasPciClass, isTunnelled, PciBaseClass, pciId } from './pci.ts'
import { chainOf, describeEnclosure, enclosureIdOf, findRouters } from './router.ts'
import type { Router } from './router.ts'

/** What is known besides the registry. */
export interface Surroundings {
  /** What `systemextensionsctl list` printed. */
  readonly systemExtensions?: string | undefined
  /** The host's thermal warning level. */
  readonly thermalLevel?: number | undefined
}

/** What a picture of the registry says, and which entries said it. */
export interface Detection {
  readonly snapshot: DriverSnapshot
  /** By device key: its own entry, and the tunnel and routers in front of it, whose end is the first sign of its own. */
  readonly devices: ReadonlyMap<string, { readonly entryId: bigint; readonly inFront: ReadonlySet<bigint> }>
  /** By enclosure id. */
  readonly enclosures: ReadonlyMap<string, bigint>
}

/** Decides everything from a picture: the same picture, from whatever source, gives the same answer. */
export function detect(picture: RegistryPicture, surroundings: Surroundings = {}): Detection {
  const host = describeHost(picture)
  const routers = findRouters(picture)
  const extensions = parseSystemExtensions(surroundings.systemExtensions)
  const joins = joinTunnelled(picture, routers)
  const nodes = picture.withRole('pci').filter((node) => hasPciClass(node, PciBaseClass.Display))
  const keys = keysOf(nodes, joins)
  const gpus: DetectedGpu[] = nodes.map((node) => {
    const join = joins.get(node)
    return describeGpu(node, {
      host,
      extensions,
      join,
      slot: slotOf(node, nodes, joins),
      key: keys.get(node) as string,
    })
  })
  gpus.push(...appleGpus(picture))
  const boxes = routers.filter((router) => !router.isHost)
  const findings = findFindings({ picture, host, routers, joins, gpus, extensions, surroundings })
  const devices = gpus.map(({ observation }) => observation).sort((a, b) => compare(a.key, b.key))
  return {
    snapshot: { devices, enclosures: boxes.map(enclosureOf), findings },
    devices: new Map(gpus.map((gpu) => [gpu.observation.key, { entryId: gpu.node.id, inFront: entriesInFront(gpu) }])),
    enclosures: new Map(boxes.map((router) => [enclosureIdOf(router), router.node.id])),
  }
}

function enclosureOf(router: Router): Enclosure {
  return describeEnclosure(router, describeCable(router))
}

/** Every tunnelled function with the router it sits behind, as far as that can be told. */
function joinTunnelled(picture: RegistryPicture, routers: readonly Router[]): ReadonlyMap<RegistryNode, Join> {
  const joins = new Map<RegistryNode, Join>()
  for (const node of picture.withRole('pci')) {
    if (hasPciClass(node, PciBaseClass.Bridge) || !isTunnelled(node)) continue
    const join = findRouterOf(node, routers, picture)
    if (join !== undefined) joins.set(node, join)
  }
  return joins
}

/** Apple's own GPU is an accelerator that no PCI device is above. */
function appleGpus(picture: RegistryPicture): readonly DetectedGpu[] {
  const nodes = picture
    .withRole('accelerator')
    .filter((node) => node.className.startsWith('AGX') && ![...above(node)].some((one) => one.roles.has('pci')))
  return nodes.map((node) => describeAppleGpu(node, nodes.length === 1 ? 'apple-gpu' : `apple-gpu@${pathOf(node)}`))
}

/**
 * Keys that outlive a re-plug: the enclosure and the place in it; without an enclosure what the card is; for an
 * internal GPU also where it sits, for a Mac Pro has two of the same kind.
 */
function keysOf(
  nodes: readonly RegistryNode[],
  joins: ReadonlyMap<RegistryNode, Join>,
): ReadonlyMap<RegistryNode, string> {
  const keys = new Map<RegistryNode, string>()
  const taken = new Set<string>()
  for (const node of [...nodes].sort((a, b) => compare(pathOf(a), pathOf(b)))) {
    const base = baseKeyOf(node, nodes, joins)
    let key = base
    for (let count = 2; taken.has(key); count += 1) key = `${base}#${count}`
    taken.add(key)
    keys.set(node, key)
  }
  return keys
}

function baseKeyOf(node: RegistryNode, nodes: readonly RegistryNode[], joins: ReadonlyMap<RegistryNode, Join>): string {
  const join = joins.get(node)
  if (join?.router.uid !== undefined) return `enclosure-${join.router.uid}-gpu${slotOf(node, nodes, joins)}`
  const ids = ['vendor-id', 'device-id', 'subsystem-vendor-id', 'subsystem-id'].map((key) => pciId(node, key))
  const card = ids.filter((id) => id !== undefined).map((id) => id.toString(16).padStart(4, '0'))
  if (isTunnelled(node)) return ['external', ...card].join('-')
  return `${['internal', ...card].join('-')}@${asText(node.properties.get('AAPL,slot-name')) ?? pathOf(node)}`
}

function slotOf(
  node: RegistryNode,
  nodes: readonly RegistryNode[],
  joins: ReadonlyMap<RegistryNode, Join>,
): number | undefined {
  const router = joins.get(node)?.router
  if (router === undefined) return undefined
  const neighbours = nodes.filter((other) => joins.get(other)?.router === router).map(pathOf)
  return neighbours.sort(compare).indexOf(pathOf(node))
}

function entriesInFront({ node, external, join }: DetectedGpu): ReadonlySet<bigint> {
  if (!external) return new Set()
  const tunnel = [...above(node)].filter((one) => one.roles.has('pci') && isTunnelled(one))
  const routers = join === undefined ? [] : chainOf(join.router).filter((one) => !one.isHost)
  return new Set([...tunnel, ...routers.map((router) => router.node)].map((one) => one.id))
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
