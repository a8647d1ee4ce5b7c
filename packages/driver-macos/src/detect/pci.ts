import { above } from '../registry/picture.ts'
import type { RegistryNode } from '../registry/picture.ts'
import { asBoolean, asDictionary, asNumber } from '../registry/value.ts'
import type { RegistryValue } from '../registry/value.ts'

/** Base classes of the PCI Code and ID Assignment Specification. */
export const PciBaseClass = { Network: 0x02, Display: 0x03, Multimedia: 0x04, Bridge: 0x06, Accelerator: 0x12 } as const
export type PciBaseClass = (typeof PciBaseClass)[keyof typeof PciBaseClass]

/** 24 bits: 0x030000 for a VGA controller, 0x030200 for a 3D controller such as an H100. */
export function pciClassOf(node: RegistryNode): number | undefined {
  const code = asNumber(node.properties.get('class-code'))
  return code === undefined || code < 0 || code > 0xffffff ? undefined : code
}

export function hasPciClass(node: RegistryNode, baseClass: PciBaseClass): boolean {
  const code = pciClassOf(node)
  return code !== undefined && code >>> 16 === baseClass
}

/** A 16-bit id; all ones is what an absent function answers, and zero is nobody's. */
export function pciId(node: RegistryNode, key: string): number | undefined {
  const id = asNumber(node.properties.get(key))
  return id === undefined || id <= 0 || id >= 0xffff ? undefined : id
}

/**
 * Whether PCI Express reaches it through a cable. The kernel marks every bridge and function on the far side of a
 * Thunderbolt tunnel (IOPCIConfigurator.cpp), and IOGraphics asks the same way; nothing else means it, least of all a
 * Thunderbolt parent, which no PCI device has.
 */
export function isTunnelled(node: RegistryNode): boolean {
  return carriesTunnelMark(node) || [...above(node)].some(carriesTunnelMark)
}

function carriesTunnelMark(node: RegistryNode): boolean {
  return asBoolean(node.properties.get('IOPCITunnelled')) === true
}

/** The PCI functions from the root port down to one, it included. */
export function pciPath(node: RegistryNode): readonly RegistryNode[] {
  return [...above(node)]
    .filter((parent) => parent.roles.has('pci'))
    .reverse()
    .concat(node)
}

/** Bits 3:0 of the Link Status and Link Capabilities registers. */
const gtPerSecond: ReadonlyMap<number, number> = new Map([
  [1, 2.5],
  [2, 5],
  [3, 8],
  [4, 16],
  [5, 32],
  [6, 64],
])
const widths: ReadonlySet<number> = new Set([1, 2, 4, 8, 12, 16, 32])

/**
 * Width and speed out of a link register, each unknown when no link has it: a function that does not answer reads all
 * ones. An entry that is being torn down has an empty dictionary instead on recent systems.
 */
export function readLink(value: RegistryValue | undefined): {
  readonly lanes?: number | undefined
  readonly gtPerSecond?: number | undefined
} {
  if (asDictionary(value) !== undefined) return {}
  const register = asNumber(value)
  if (register === undefined || register < 0) return {}
  const lanes = (register >>> 4) & 0x3f
  return { lanes: widths.has(lanes) ? lanes : undefined, gtPerSecond: gtPerSecond.get(register & 0xf) }
}
