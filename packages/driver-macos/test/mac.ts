import { dword } from './registry-tree.ts'
import type { TreeNode, TreeValue } from './registry-tree.ts'

type Properties = Readonly<Record<string, TreeValue>>

/** Numbers entries like the kernel: in the order they are made, never one twice. */
let nextId = 0x1_0000_0100n

export function entry(
  className: string,
  name: string,
  location: string | undefined,
  properties: Properties = {},
  children: readonly TreeNode[] = [],
): TreeNode {
  nextId += 1n
  return { id: nextId, className, name, location, properties, children }
}

// ---- PCI

export interface PciOptions {
  readonly vendor: number
  readonly device: number
  readonly class: number
  readonly tunnelled?: boolean | undefined
  /** `IOPCIExpressLinkStatus`. */
  readonly link?: TreeValue | undefined
  /** `IOPCIExpressLinkCapabilities`. */
  readonly capabilities?: number | undefined
  readonly slotName?: string | undefined
  readonly name?: string | undefined
  readonly location?: string | undefined
  readonly properties?: Properties | undefined
}

/** A PCI function as `IOPCIDevice` publishes it. */
export function pci(options: PciOptions, children: readonly TreeNode[] = []): TreeNode {
  const ids = {
    'vendor-id': dword(options.vendor),
    'device-id': dword(options.device),
    'class-code': dword(options.class),
  }
  const rest: Record<string, TreeValue> = { ...options.properties }
  if (options.tunnelled === true) rest['IOPCITunnelled'] = true
  if (options.link !== undefined) rest['IOPCIExpressLinkStatus'] = options.link
  if (options.capabilities !== undefined) rest['IOPCIExpressLinkCapabilities'] = options.capabilities
  if (options.slotName !== undefined)
    rest['AAPL,slot-name'] = { hex: Buffer.from(`${options.slotName}\0`).toString('hex') }
  const hex = (id: number): string => id.toString(16)
  const generic: Readonly<Record<number, string>> = { 0x03: 'display', 0x06: 'pci-bridge', 0x02: 'ethernet' }
  const name = options.name ?? generic[options.class >>> 16] ?? `pci${hex(options.vendor)},${hex(options.device)}`
  return entry('IOPCIDevice', name, options.location ?? '0', { ...ids, ...rest }, children)
}

/** Link Status or the low half of Link Capabilities: width and generation. */
export function linkRegister(lanes: number, generation: number): number {
  return (lanes << 4) | generation
}

/** The bridge driver between a bridge and what is below it. */
export function iopp(children: readonly TreeNode[], properties: Properties = {}): TreeNode {
  return entry('IOPCI2PCIBridge', 'IOPP', undefined, properties, children)
}

export interface TunnelOptions {
  /** UID of the router at the far end. */
  readonly guid?: bigint | undefined
  /** Entry id of the port the tunnel starts in. */
  readonly portId?: bigint | undefined
  readonly vendor?: number | undefined
  readonly device?: number | undefined
  /** Link registers of the port the functions hang on. */
  readonly link?: number | undefined
  readonly capabilities?: number | undefined
}

/** What a box adds on the PCI side: the upstream and one downstream port of its switch, marked as tunnelled. */
export function tunnel(options: TunnelOptions, functions: readonly TreeNode[]): TreeNode {
  const { vendor = 0x8086, device = 0x15ef, link, capabilities } = options
  const properties: Record<string, TreeValue> = {}
  if (options.guid !== undefined) properties['Tunnel Endpoint GUID'] = guidBytes(options.guid)
  if (options.portId !== undefined) properties['Thunderbolt Entry ID'] = options.portId
  const bridge = { vendor, device, class: 0x060400, tunnelled: true } as const
  // A virtual link reports 2.5 GT/s x4 whatever the cable does.
  const upstream = { ...bridge, link: linkRegister(4, 1), properties }
  return pci(upstream, [iopp([pci({ ...bridge, location: '1', link, capabilities }, [iopp(functions)])])])
}

/** Eight bytes, lowest first. */
export function guidBytes(uid: bigint): TreeValue {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt.asUintN(64, uid))
  return { hex: bytes.toString('hex') }
}

// ---- Thunderbolt

export interface BoxOptions {
  readonly className?: string | undefined
  readonly uid?: bigint | undefined
  readonly vendor?: string | undefined
  readonly model?: string | undefined
  readonly version?: number | undefined
  /** Lane coding of the cable to it: 8 is 10 Gb/s, 4 is 20, 2 is 40. */
  readonly speed?: number | undefined
  readonly width?: number | undefined
  readonly properties?: Properties | undefined
  /** Properties of its PCI Express port, which points at the PCI side. */
  readonly pciPort?: Properties | undefined
  /** What is chained behind it. */
  readonly chained?: readonly BoxOptions[] | undefined
}

function port(location: string, properties: Properties, children: readonly TreeNode[] = []): TreeNode {
  return entry(
    'IOThunderboltPort',
    'IOThunderboltPort',
    location,
    { 'Port Number': Number(location), ...properties },
    children,
  )
}

const pciAdapter = { 'Adapter Type': 0x100101, Description: 'PCIe Adapter' } as const

/** A lane port with nothing in it still claims 10 Gb/s on one lane. */
const idleLane = {
  'Adapter Type': 1,
  Description: 'Thunderbolt Port',
  'Current Link Speed': 8,
  'Current Link Width': 1,
  'Link Bandwidth': 100,
}

function lane(location: string, socket: string | undefined, box: BoxOptions | undefined, depth: number): TreeNode {
  const where = socket === undefined ? {} : { 'Socket ID': socket }
  if (box === undefined) return port(location, { ...idleLane, ...where })
  const trained: Record<string, TreeValue> = {}
  if (box.speed !== undefined) trained['Current Link Speed'] = box.speed
  if (box.width !== undefined) trained['Current Link Width'] = box.width
  const below = port('1', { 'Adapter Type': 1, ...trained }, [router(box, depth)])
  return port(location, { 'Adapter Type': 1, Description: 'Thunderbolt Port', ...trained, ...where }, [below])
}

function router(box: BoxOptions, depth: number): TreeNode {
  const properties: Record<string, TreeValue> = { Depth: depth, ...box.properties }
  if (box.uid !== undefined) properties['UID'] = BigInt.asIntN(64, box.uid)
  if (box.vendor !== undefined) properties['Device Vendor Name'] = box.vendor
  if (box.model !== undefined) properties['Device Model Name'] = box.model
  if (box.version !== undefined) properties['Thunderbolt Version'] = box.version
  const [first] = box.chained ?? []
  const ports = [
    lane('3', undefined, first, depth + 1),
    port('9', { ...pciAdapter, 'Adapter Type': 0x100102, ...box.pciPort }),
  ]
  return entry(
    box.className ?? 'IOThunderboltSwitchType3',
    box.className ?? 'IOThunderboltSwitchType3',
    '0',
    properties,
    ports,
  )
}

export interface HostOptions {
  /** The number in AppleThunderboltNHIType. */
  readonly type: number
  /** What is plugged into each receptacle. */
  readonly boxes: readonly (BoxOptions | undefined)[]
  /** Properties of every host PCI Express port. */
  readonly hostPciPort?: Properties | undefined
  readonly hostSwitch?: Properties | undefined
  readonly belowController?: readonly TreeNode[] | undefined
}

/** One Thunderbolt controller with its host router; receptacle numbers count from `firstSocket`. */
function thunderbolt(type: number, box: BoxOptions | undefined, socket: number, options: HostOptions): TreeNode {
  const host = entry(
    `IOThunderboltSwitchType${type}`,
    `IOThunderboltSwitchType${type}`,
    '0',
    { Depth: 0, 'Device Vendor Name': 'Apple Inc.', ...options.hostSwitch },
    [
      lane('1', String(socket), box, 1),
      port('2', { ...idleLane, 'Socket ID': String(socket) }),
      port('3', { ...pciAdapter, ...options.hostPciPort }),
      port('4', { 'Adapter Type': 0x200101, Description: 'USB Adapter' }),
      port('5', { 'Adapter Type': 0x0e0101, Description: 'DP or HDMI Adapter' }),
    ],
  )
  const controller = entry(`IOThunderboltControllerType${type}`, `IOThunderboltControllerType${type}`, undefined, {}, [
    port('7', { 'Adapter Type': 2, Description: 'Thunderbolt Native Host Interface Adapter' }, [host]),
    ...(options.belowController ?? []),
  ])
  return entry(`AppleThunderboltNHIType${type}`, `AppleThunderboltNHIType${type}`, undefined, {}, [controller])
}

export interface AppleMacOptions extends HostOptions {
  /** What each receptacle's PCI Express root port has below it. */
  readonly pciBehind?: readonly (readonly TreeNode[])[] | undefined
  readonly rootPort?: Properties | undefined
  /** Other entries below `arm-io`. */
  readonly others?: readonly TreeNode[] | undefined
  readonly model?: string | undefined
}

/** A Mac with Apple silicon: PCI Express and Thunderbolt are separate branches, one pair for each receptacle. */
export function appleMac(options: AppleMacOptions): TreeNode {
  const count = Math.max(options.boxes.length, options.pciBehind?.length ?? 0)
  const branches = Array.from({ length: count }, (_, index) => {
    const below = options.pciBehind?.[index] ?? []
    const rootPort = pci(
      { vendor: 0x106b, device: 0x100c, class: 0x060400, name: `pcic${index}-bridge`, properties: options.rootPort },
      [iopp(below)],
    )
    return [
      entry('AppleARMIODevice', `apciec${index}`, `${3 + index}0000000`, {}, [
        entry('AppleT6000PCIeC', 'AppleT6000PCIeC', undefined, {}, [rootPort]),
      ]),
      entry('AppleARMIODevice', `acio${index}`, '1F00000', {}, [
        entry(`AppleThunderboltHALType${options.type}`, `AppleThunderboltHALType${options.type}`, undefined, {}, [
          thunderbolt(options.type, options.boxes[index], index + 1, options),
        ]),
      ]),
    ]
  })
  const armIo = entry('AppleARMIODevice', 'arm-io', '10F00000', {}, [...branches.flat(), ...(options.others ?? [])])
  return machine(options.model, entry('AppleARMPE', 'AppleARMPE', undefined, {}, [armIo]))
}

export interface IntelMacOptions extends HostOptions {
  /** What is behind the Thunderbolt controller's second port. */
  readonly pciBehind?: readonly TreeNode[] | undefined
  /** Other functions of the PCI root. */
  readonly internal?: readonly TreeNode[] | undefined
  readonly model?: string | undefined
}

/** An Intel Mac: the host interface is a PCI function on one port of the controller, boxes are behind another. */
export function intelMac(options: IntelMacOptions): TreeNode {
  const chip = { vendor: 0x8086, device: 0x15ea, class: 0x060400 } as const
  const hosts = options.boxes.map((box, index) => thunderbolt(options.type, box, index + 1, options))
  const rootPort = pci({ ...chip, device: 0xa334, name: 'RP05', location: '1C,4' }, [
    iopp([
      pci({ ...chip, name: 'UPSB', link: linkRegister(4, 3), capabilities: linkRegister(4, 3) }, [
        iopp([
          pci({ ...chip, name: 'DSB0', location: '0' }, [
            iopp([
              pci({ ...chip, device: 0x15eb, class: 0x088000, name: 'NHI0' }, [
                entry('AppleThunderboltHAL', 'AppleThunderboltHAL', undefined, {}, hosts),
              ]),
            ]),
          ]),
          pci({ ...chip, name: 'DSB1', location: '1' }, [iopp(options.pciBehind ?? [])]),
        ]),
      ]),
    ]),
  ])
  const root = entry('AppleACPIPCI', 'AppleACPIPCI', undefined, {}, [rootPort, ...(options.internal ?? [])])
  const acpi = entry('AppleACPIPlatformExpert', 'AppleACPIPlatformExpert', undefined, {}, [
    entry('IOACPIPlatformDevice', 'PCI0', '0', {}, [root]),
  ])
  return machine(options.model, acpi)
}

function machine(model: string | undefined, platform: TreeNode): TreeNode {
  const properties = model === undefined ? {} : { model: { hex: Buffer.from(`${model}\0`).toString('hex') } }
  return entry('IORegistryEntry', 'Root', undefined, {}, [
    entry('IOPlatformExpertDevice', model ?? 'Mac', undefined, properties, [platform]),
  ])
}

/** The first entry that fits, anywhere in a tree. */
export function findEntry(tree: TreeNode, fits: (node: TreeNode) => boolean): TreeNode {
  const search = (node: TreeNode): TreeNode | undefined => {
    if (fits(node)) return node
    for (const child of node.children) {
      const found = search(child)
      if (found !== undefined) return found
    }
    return undefined
  }
  const found = search(tree)
  if (found === undefined) throw new Error('the tree has no such entry')
  return found
}
