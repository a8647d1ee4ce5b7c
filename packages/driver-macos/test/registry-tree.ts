/** A value of a property: `hex` makes data, which is how PCI ids come. */
export type TreeValue =
  | bigint
  | number
  | boolean
  | string
  | { readonly hex: string }
  | { readonly real: number }
  | { readonly dictionary: Readonly<Record<string, TreeValue>> }
  | readonly TreeValue[]

/** One entry of a registry that a test makes up. */
export interface TreeNode {
  readonly id: bigint
  readonly className: string
  readonly name: string
  readonly location?: string | undefined
  readonly properties: Readonly<Record<string, TreeValue>>
  readonly children: readonly TreeNode[]
}

/** `<de100000>`: four bytes, lowest first. */
export function dword(value: number): TreeValue {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return { hex: bytes.toString('hex') }
}

/** What each class derives from, as `ioreg -i` lists it. */
const superclasses: readonly (readonly [pattern: RegExp, chain: readonly string[]])[] = [
  [/^IOPCI2PCIBridge$/, ['IOPCIBridge']],
  [/^Apple\w*PCIeC$/, ['IOPCIHostBridge', 'IOPCIBridge']],
  [/^AppleACPIPCI$/, ['IOPCIHostBridge', 'IOPCIBridge']],
  [/^AppleThunderboltNHIType/, ['AppleThunderboltNHI']],
  [/^IOThunderboltControllerType/, ['IOThunderboltController']],
  [/^IOThunderboltSwitch./, ['IOThunderboltSwitch']],
  [/^AGXAccelerator./, ['AGXAccelerator', 'IOAccelerator']],
  [/^AMDRadeonX\w+Accelerator$/, ['IOGraphicsAccelerator2', 'IOAccelerator']],
  [/^AMDFramebuffer/, ['IOFramebuffer', 'IOGraphicsDevice']],
  [/^IOEthernetInterface$/, ['IONetworkInterface']],
]

function inheritanceOf(className: string): readonly string[] {
  const chain = superclasses.find(([pattern]) => pattern.test(className))?.[1] ?? []
  return [className, ...chain, 'IOService', 'IORegistryEntry'].reverse()
}

export interface PlistOptions {
  /** Leave out what `ioreg -i` adds. */
  readonly withoutInheritance?: boolean | undefined
  /** Only the first property's value. */
  readonly bare?: boolean | undefined
}

/** What `ioreg -a -l -i -w0` would print of it. */
export function toPlist(tree: TreeNode, options: PlistOptions = {}): string {
  const body =
    options.bare === true ? format(Object.values(tree.properties)[0] as TreeValue) : formatNode(tree, options)
  return (
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n' +
    `<plist version="1.0">\n${body}\n</plist>\n`
  )
}

function formatNode(node: TreeNode, options: PlistOptions): string {
  const entries: [string, string][] = [
    ['IORegistryEntryID', format(node.id)],
    ['IORegistryEntryName', format(node.name)],
    ['IOObjectClass', format(node.className)],
  ]
  if (node.location !== undefined) entries.push(['IORegistryEntryLocation', format(node.location)])
  if (options.withoutInheritance !== true) entries.push(['IOObjectInheritance', format(inheritanceOf(node.className))])
  for (const [key, value] of Object.entries(node.properties)) entries.push([key, format(value)])
  if (node.children.length > 0) {
    const children = node.children.map((child) => formatNode(child, options)).join('\n')
    entries.push(['IORegistryEntryChildren', `<array>\n${children}\n</array>`])
  }
  return `<dict>\n${entries.map(([key, value]) => `<key>${escape(key)}</key>${value}`).join('\n')}\n</dict>`
}

function format(value: TreeValue): string {
  if (typeof value === 'boolean') return value ? '<true/>' : '<false/>'
  if (typeof value === 'bigint' || typeof value === 'number') return `<integer>${value}</integer>`
  if (typeof value === 'string') return `<string>${escape(value)}</string>`
  if (isArray(value)) return `<array>${value.map(format).join('')}</array>`
  if ('hex' in value) return `<data>\n${Buffer.from(value.hex, 'hex').toString('base64')}\n</data>`
  if ('real' in value) return `<real>${value.real}</real>`
  const entries = Object.entries(value.dictionary).map(([key, child]) => `<key>${escape(key)}</key>${format(child)}`)
  return `<dict>${entries.join('')}</dict>`
}

function isArray(value: TreeValue): value is readonly TreeValue[] {
  return Array.isArray(value)
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
