import { createHmac, randomBytes } from 'node:crypto'
import { isGpuBridge } from '../detect/findings.ts'
import { detectorRoles } from '../detect/roles.ts'
import { above, below } from '../registry/picture.ts'
import type { RegistryNode, RegistryPicture, Role, RoleRequest } from '../registry/picture.ts'
import { asInteger } from '../registry/value.ts'
import type { RegistryValue } from '../registry/value.ts'

/** Properties that tell one box from every other. A tunnel names its router's, so both get the same stand-in. */
const uniqueIds: ReadonlySet<string> = new Set(['UID', 'Tunnel Endpoint GUID'])

/**
 * The entries of a picture as `ioreg` nests them, without what could tell whose Mac it is. The same unique id gets the
 * same stand-in within one recording; the key is thrown away, so that two recordings do not fit each other.
 */
export function redactedTree(picture: RegistryPicture): readonly RegistryValue[] {
  const key = randomBytes(32)
  const standIn = (id: bigint): bigint => {
    const digest = createHmac('sha256', key).update(BigInt.asUintN(64, id).toString()).digest()
    return id === 0n ? id : digest.readBigInt64LE()
  }
  const valueOf = (name: string, value: RegistryValue): RegistryValue => {
    if (!uniqueIds.has(name)) return value
    const id = asInteger(value)
    return id === undefined ? 'removed' : standIn(id)
  }
  const nodes = [...picture.nodes.values()]
  const needed = new Set(nodes.filter(matters).flatMap((node) => [node, ...above(node)]))
  const entryOf = (node: RegistryNode): RegistryValue => ({
    IORegistryEntryID: node.id,
    IORegistryEntryName: hasOwnName(node) ? node.name : node.className,
    IOObjectClass: node.className,
    IOObjectInheritance: [node.className, ...[...node.roles].flatMap((role) => baseClasses.get(role) ?? [])],
    ...(node.location === undefined ? {} : { IORegistryEntryLocation: node.location }),
    ...Object.fromEntries([...node.properties].map(([name, value]) => [name, valueOf(name, value)])),
    IORegistryEntryChildren: node.children.filter((child) => needed.has(child)).map(entryOf),
  })
  return nodes.filter((node) => node.parent === undefined && needed.has(node)).map(entryOf)
}

/** A person's USB devices are their own; those in which a GPU may hide are what a report is about. */
function matters(node: RegistryNode): boolean {
  if (node.roles.has('media')) return [...above(node)].some(isGpuBridge)
  if (node.roles.has('usb')) return isGpuBridge(node) || [...below(node)].some(isGpuBridge)
  return node.roles.size > 0
}

/** A volume and what leads to it are called what their owner chose. */
function hasOwnName(node: RegistryNode): boolean {
  return node.roles.has('usb') || ![...above(node)].some((one) => one.roles.has('usb'))
}

const baseClasses: ReadonlyMap<Role, readonly string[]> = new Map(rolesIn(detectorRoles))

function rolesIn(requests: readonly RoleRequest[]): (readonly [Role, readonly string[]])[] {
  return requests.flatMap(({ role, classes, below: inner }) => [
    [role, classes] as const,
    ...(inner === undefined ? [] : rolesIn(inner.roles)),
  ])
}
