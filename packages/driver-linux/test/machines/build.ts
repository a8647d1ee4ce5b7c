import type { CardNode, DomainNode, Machine, PciNode, RouterNode, TypecNode } from './machine.ts'
import { unreadable } from './tree.ts'
import type { Entry, Tree } from './tree.ts'

/** Makes the sysfs tree of a machine: what was written down, and what the kernel makes of it (marked `implied`). */
export function treeOf(machine: Machine): Tree {
  const tree = new Map<string, Entry>()
  tree.set('devices/system/cpu/online', '0\n')
  const paths = new Map<string, string>()
  for (const node of machine.pci) addPci(tree, paths, machine, node, `devices/pci${domainOf(node.at)}:00`, [])
  addThunderbolt(tree, paths, machine)
  for (const [rootPort, nhi] of machine.usb4Links ?? []) {
    tree.set(`class/devlink/pci:${full(nhi)}--pci:${full(rootPort)}`, { to: '../../devices/virtual/devlink/x' })
  }
  for (const card of machine.cards ?? []) addCard(tree, paths, card)
  for (const port of machine.typec ?? []) addTypec(tree, port)
  for (const [slot, address] of Object.entries(machine.hotplugSlots ?? {})) {
    tree.set(`bus/pci/slots/${slot}/address`, `${full(address)}\n`)
  }
  const { dmi } = machine
  if (dmi?.chassis !== undefined) tree.set('class/dmi/id/chassis_type', `${dmi.chassis}\n`)
  if (dmi?.vendor !== undefined) tree.set('class/dmi/id/sys_vendor', `${dmi.vendor}\n`)
  if (dmi?.product !== undefined) tree.set('class/dmi/id/product_name', `${dmi.product}\n`)
  for (const [path, entry] of Object.entries(machine.files ?? {})) tree.set(path, entry)
  return tree
}

/** `/proc` of the machine, as far as it is read. */
export function procOf(machine: Machine): Tree {
  const { kernel } = machine
  return new Map(kernel === undefined ? [] : [['sys/kernel/osrelease', `${kernel}\n`]])
}

function full(at: string): string {
  return at.split(':').length === 2 ? `0000:${at}` : at
}

function domainOf(at: string): string {
  return full(at).split(':')[0] as string
}

function addPci(
  tree: Map<string, Entry>,
  paths: Map<string, string>,
  machine: Machine,
  node: PciNode,
  parent: string,
  above: readonly PciNode[],
): void {
  const address = full(node.at)
  const path = `${parent}/${address}`
  paths.set(address, path)
  const put = (attribute: string, entry: Entry): void => void tree.set(`${path}/${attribute}`, entry)
  const [vendor, device] = node.id.split(':') as [string, string]
  const [subVendor, subDevice] = (node.subsystem ?? '0000:0000').split(':') as [string, string]
  // Implied: drivers/pci/pci-driver.c `pci_uevent` prints the ids in upper case and the class without leading zeros.
  put(
    'uevent',
    [
      ...(node.driver === undefined ? [] : [`DRIVER=${node.driver}`]),
      `PCI_CLASS=${Number.parseInt(node.class, 16).toString(16).toUpperCase()}`,
      `PCI_ID=${vendor.toUpperCase()}:${device.toUpperCase()}`,
      `PCI_SUBSYS_ID=${subVendor.toUpperCase()}:${subDevice.toUpperCase()}`,
      `PCI_SLOT_NAME=${address}`,
      '',
    ].join('\n'),
  )
  tree.set(`bus/pci/devices/${address}`, { to: `${'../'.repeat(3)}${path}` })
  if (node.bare === true) return
  put('vendor', `0x${vendor}\n`)
  put('device', `0x${device}\n`)
  put('subsystem_vendor', `0x${subVendor}\n`)
  put('subsystem_device', `0x${subDevice}\n`)
  put('class', `0x${node.class}\n`)
  put('power/runtime_status', `${node.sleep === undefined ? 'active' : 'suspended'}\n`)
  put('power/control', 'auto\n')
  put('power_state', `${node.sleep ?? 'D0'}\n`)
  put('config', unreadable)
  const mark = removable(machine, node, above)
  if (mark !== undefined) put('removable', `${mark}\n`)
  if (node.class.startsWith('0300')) put('boot_vga', '0\n')
  addLink(put, node)
  if (node.bars !== undefined) put('resource', resource(node.bars))
  for (const [attribute, entry] of Object.entries(node.attributes ?? {})) put(attribute, entry)
  for (const child of node.below ?? []) addPci(tree, paths, machine, child, path, [...above, node])
}

/** Implied: drivers/pci/probe.c `pci_set_removable` and, since 6.13, arch/x86/pci/acpi.c `arch_pci_dev_is_removable`. */
function removable(machine: Machine, node: PciNode, above: readonly PciNode[]): string | undefined {
  const rule = machine.removableRule ?? '6.13'
  if (rule === 'none') return undefined
  const [root] = above
  if (root === undefined || machine.externalFacing?.includes(root.at) !== true) return 'unknown'
  const tunnelled = machine.usb4Links?.some(([port]) => port === root.at) === true || kernelKnown.has(root.id)
  if (rule === '5.16' || tunnelled) return 'removable'
  return isBehindFirstSwitch(node, above.length) ? 'removable' : 'unknown'
}

/**
 * The first switch below the port, and endpoints on it, are taken for a discrete controller. Endpoints without a switch
 * and everything from a second switch on are not.
 */
function isBehindFirstSwitch(node: PciNode, depth: number): boolean {
  const bridge = node.class.startsWith('0604')
  if (depth === 1) return !bridge
  return depth > 3 || (depth === 3 && bridge)
}

/** Root ports arch/x86/pci/acpi.c knows by id: Ice Lake and Tiger Lake. */
const kernelKnown: ReadonlySet<string> = new Set(
  ['8a1d', '8a1f', '8a21', '8a23', '9a23', '9a25', '9a27', '9a29', '9a2b', '9a2d', '9a2f', '9a31'].map(
    (id) => `8086:${id}`,
  ),
)

function addLink(put: (attribute: string, entry: Entry) => void, { link }: PciNode): void {
  if (link === undefined) return
  const entries = {
    current_link_speed: link.speed,
    current_link_width: link.width,
    max_link_speed: link.maxSpeed,
    max_link_width: link.maxWidth,
  }
  for (const [attribute, value] of Object.entries(entries)) {
    if (value !== undefined) put(attribute, value === 'unreadable' ? unreadable : `${value}\n`)
  }
}

/** Implied: drivers/pci/pci-sysfs.c prints start, end and flags (include/linux/ioport.h) of thirteen resources. */
function resource(bars: NonNullable<PciNode['bars']>): string {
  let next = 0x60_0000_0000n
  const lines = bars.map(({ size, prefetchable = false, unassigned = false }) => {
    if (size === 0) return line(0n, 0n, 0n)
    const flags = 0x200n | 0x40000n | (prefetchable ? 0x102000n : 0n) | (unassigned ? 0x20000000n : 0n)
    if (unassigned) return line(0n, BigInt(size) - 1n, flags)
    const start = next
    next += BigInt(size)
    return line(start, start + BigInt(size) - 1n, flags)
  })
  while (lines.length < 13) lines.push(line(0n, 0n, 0n))
  return `${lines.join('\n')}\n`
}

function line(...values: readonly bigint[]): string {
  return values.map((value) => `0x${value.toString(16).padStart(16, '0')}`).join(' ')
}

function addThunderbolt(tree: Map<string, Entry>, paths: ReadonlyMap<string, string>, machine: Machine): void {
  if (machine.thunderbolt === 'no-module') return
  if (machine.thunderbolt === undefined) return
  tree.set('bus/thunderbolt/uevent', unreadable)
  for (const domain of machine.thunderbolt) addDomain(tree, paths, domain)
}

function addDomain(tree: Map<string, Entry>, paths: ReadonlyMap<string, string>, domain: DomainNode): void {
  const base = `${paths.get(full(domain.nhi)) ?? `devices/${full(domain.nhi)}`}/domain${domain.index}`
  const enlist = (name: string, path: string): void => {
    tree.set(`bus/thunderbolt/devices/${name}`, { to: `../../../${path}` })
  }
  enlist(`domain${domain.index}`, base)
  tree.set(`${base}/uevent`, 'DEVTYPE=thunderbolt_domain\n')
  tree.set(`${base}/security`, `${domain.security ?? 'user'}\n`)
  if (domain.iommuDmaProtection !== undefined)
    tree.set(`${base}/iommu_dma_protection`, `${domain.iommuDmaProtection}\n`)
  if (domain.bootAcl !== undefined) tree.set(`${base}/boot_acl`, `${domain.bootAcl}\n`)
  const hostName = `${domain.index}-0`
  const hostPath = `${base}/${hostName}`
  enlist(hostName, hostPath)
  const { host } = domain
  tree.set(`${hostPath}/uevent`, uevent('thunderbolt_device', host.usb4, 'host'))
  tree.set(`${hostPath}/authorized`, '1\n')
  tree.set(`${hostPath}/generation`, `${host.generation}\n`)
  tree.set(`${hostPath}/unique_id`, `0${domain.index}000000-0000-0000-ffff-ffffffffffff\n`)
  tree.set(`${hostPath}/vendor`, '0x8086\n')
  tree.set(`${hostPath}/device`, '0x1\n')
  if (host.deviceName !== undefined) tree.set(`${hostPath}/device_name`, `${host.deviceName}\n`)
  if (host.vendorName !== undefined) tree.set(`${hostPath}/vendor_name`, `${host.vendorName}\n`)
  for (const [port, { link, typec }] of Object.entries(domain.ports ?? {})) {
    tree.set(`${hostPath}/usb4_port${port}/link`, `${link}\n`)
    if (typec !== undefined) tree.set(`${hostPath}/usb4_port${port}/connector`, { to: `../../typec/${typec}` })
  }
  const routerPaths = new Map([[hostName, hostPath]])
  for (const router of [...(domain.routers ?? [])].sort((a, b) => a.name.length - b.name.length)) {
    const path = `${routerPaths.get(parentOf(router.name)) ?? hostPath}/${router.name}`
    routerPaths.set(router.name, path)
    enlist(router.name, path)
    addRouter(tree, path, router)
  }
  for (const name of domain.retimers ?? []) {
    const path = `${hostPath}/${name}`
    enlist(name, path)
    tree.set(`${path}/uevent`, 'DEVTYPE=thunderbolt_retimer\n')
    tree.set(`${path}/vendor`, '0x8087\n')
    tree.set(`${path}/device`, '0xd9c\n')
  }
  for (const peer of domain.peers ?? []) {
    const path = `${hostPath}/${peer.name}`
    enlist(peer.name, path)
    tree.set(`${path}/uevent`, 'DEVTYPE=thunderbolt_xdomain\n')
    tree.set(`${path}/device_name`, `${peer.hostName}\n`)
    tree.set(`${path}/unique_id`, `${peer.uuid}\n`)
    tree.set(`${path}/maxhopid`, '15\n')
  }
}

/** `0-301` hangs on `0-1`: the highest byte of the route is the last hop. */
function parentOf(name: string): string {
  const [domain, route] = name.split('-') as [string, string]
  return `${domain}-${(route.length > 2 ? route.slice(route.length % 2 === 0 ? 2 : 1) : '0').replace(/^0+(?=.)/, '')}`
}

function uevent(type: string, usb4: string | undefined, role: string): string {
  return [`DEVTYPE=${type}`, ...(usb4 === undefined ? [] : [`USB4_VERSION=${usb4}`, `USB4_TYPE=${role}`]), ''].join(
    '\n',
  )
}

function addRouter(tree: Map<string, Entry>, path: string, router: RouterNode): void {
  const put = (attribute: string, value: string | undefined): void => {
    if (value !== undefined) tree.set(`${path}/${attribute}`, `${value}\n`)
  }
  tree.set(`${path}/uevent`, uevent('thunderbolt_device', router.usb4?.version, router.usb4?.type ?? 'device'))
  put('authorized', router.authorized)
  put('boot', router.boot ?? '0')
  put('vendor', router.vendor)
  put('device', router.device)
  put('vendor_name', router.vendorName)
  put('device_name', router.deviceName)
  put('generation', router.generation)
  put('rx_speed', `${router.rx[0]} Gb/s`)
  put('rx_lanes', router.rx[1])
  const [speed, lanes] = router.tx ?? router.rx
  put('tx_speed', `${speed} Gb/s`)
  put('tx_lanes', lanes)
  put('unique_id', router.uuid)
  put('nvm_version', router.nvm)
  put('key', router.key)
}

function addCard(tree: Map<string, Entry>, paths: ReadonlyMap<string, string>, card: CardNode): void {
  const device = card.pci === undefined ? card.device : paths.get(full(card.pci))
  const base = `${device ?? 'devices/virtual'}/drm`
  tree.set(`${base}/${card.name}/uevent`, `DEVTYPE=drm_minor\n`)
  tree.set(`class/drm/${card.name}`, { to: `../../${base}/${card.name}` })
  if (card.render !== undefined) {
    tree.set(`${base}/${card.render}/uevent`, 'DEVTYPE=drm_minor\n')
    tree.set(`class/drm/${card.render}`, { to: `../../${base}/${card.render}` })
  }
  for (const [name, status] of Object.entries(card.connectors ?? {})) {
    const connector = `${card.name}-${name}`
    tree.set(`${base}/${card.name}/${connector}/status`, `${status}\n`)
    tree.set(`class/drm/${connector}`, { to: `../../${base}/${card.name}/${connector}` })
  }
}

function addTypec(tree: Map<string, Entry>, port: TypecNode): void {
  const base = `devices/platform/USBC000:00/typec/${port.name}`
  tree.set(`class/typec/${port.name}`, { to: `../../${base}` })
  tree.set(`${base}/data_role`, '[host] device\n')
  tree.set(`${base}/power_role`, 'source [sink]\n')
  tree.set(`${base}/power_operation_mode`, 'usb_power_delivery\n')
  if (port.partner === undefined) return
  const partner = `${port.name}-partner`
  tree.set(`class/typec/${partner}`, { to: `../../${base}/${partner}` })
  tree.set(`${base}/${partner}/accessory_mode`, 'none\n')
  for (const [index, { svid, active }] of (port.partner.modes ?? []).entries()) {
    tree.set(`${base}/${partner}/${partner}.${index}/svid`, `${svid}\n`)
    tree.set(`${base}/${partner}/${partner}.${index}/active`, `${active}\n`)
  }
  if (port.partner.source === undefined) return
  const supply = `${base}/${partner}/usb_power_delivery/source-capabilities/1:fixed_supply`
  tree.set(`${supply}/voltage`, `${port.partner.source[0]}\n`)
  tree.set(`${supply}/maximum_current`, `${port.partner.source[1]}\n`)
}
