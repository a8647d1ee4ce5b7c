import type { CardNode, DomainNode, ExpectedGpu, ExpectedLink, LinkNode, PciNode, RouterNode } from './machine.ts'

/** `link(16, 4, 32, 16)`: 16 GT/s on 4 lanes now, 32 GT/s on 16 at best. */
export function link(speed: number, width: number, maxSpeed: number, maxWidth: number): LinkNode {
  return {
    speed: `${speed.toFixed(1)} GT/s PCIe`,
    width: String(width),
    maxSpeed: `${maxSpeed.toFixed(1)} GT/s PCIe`,
    maxWidth: String(maxWidth),
  }
}

/** What every tunnelled hop reports, whatever the cable does. */
export const fiction: LinkNode = link(2.5, 4, 2.5, 4)

/** A port with nothing on the other end. */
export const noLink: LinkNode = link(2.5, 0, 2.5, 4)

export const MiB: number = 2 ** 20
export const GiB: number = 2 ** 30

/** A PCI-to-PCI bridge with its driver. */
export function bridge(at: string, id: string, below: readonly PciNode[] = [], more: Partial<PciNode> = {}): PciNode {
  return { at, id, class: '060400', driver: 'pcieport', below, ...more }
}

/** A function that is there and of no interest. */
export function other(at: string, id: string, pciClass: string, driver?: string): PciNode {
  return { at, id, class: pciClass, driver }
}

/** The graphics audio function next to a GPU. */
export function audio(at: string, id: string): PciNode {
  return { at, id, class: '040300', driver: 'snd_hda_intel' }
}

/** A controller with a USB4 host router (generation 4), and what hangs on it. */
export function usb4Domain(
  index: number,
  nhi: string,
  routers: readonly RouterNode[] = [],
  more: Partial<DomainNode> = {},
): DomainNode {
  return { index, nhi, iommuDmaProtection: '1', host: { generation: '4', usb4: '1.0' }, routers, ...more }
}

/** A Thunderbolt 3 controller, as laptops had them before 2020. */
export function thunderbolt3Domain(
  index: number,
  nhi: string,
  routers: readonly RouterNode[] = [],
  more: Partial<DomainNode> = {},
): DomainNode {
  return { index, nhi, iommuDmaProtection: '1', host: { generation: '3' }, routers, ...more }
}

/** A box on a 40 Gb/s link that is authorized. `n` makes its unique id. */
export function box(name: string, n: number, more: Partial<RouterNode> = {}): RouterNode {
  return {
    name,
    vendor: '0x3',
    device: '0x1',
    generation: '4',
    rx: ['20.0', '2'],
    authorized: '1',
    uuid: uuid(n),
    ...more,
  }
}

/** A unique id as the software connection manager makes it, of UID `n`. */
export function uuid(n: number): string {
  return `${n.toString(16).padStart(2, '0')}000000-0000-0000-ffff-ffffffffffff`
}

/** The Device Serial Number that goes with it. */
export function serialOf(n: number): string {
  return `00-00-00-00-00-00-00-${n.toString(16).padStart(2, '0')}`
}

/** What the answer says about a processor's own GPU. */
export function ownGpu(key: string, driver: string, more: Partial<ExpectedGpu> = {}): ExpectedGpu {
  return {
    key,
    verdict: 'internal',
    confidence: 'high',
    stage: 'ready',
    driver,
    power: 'active',
    displays: [],
    ...more,
  }
}

/** The link of a GPU in a box behind an integrated controller, on a 40 Gb/s cable. */
export function cableLink(hops: readonly string[], sticker: string = 'thunderbolt-4'): ExpectedLink {
  const effective = sticker === 'thunderbolt-3' ? 2.75 : 3.79
  return { sticker, trained: '2x20/2x20', hops, bottleneck: 'cable', effective }
}

/** Intel processor graphics at 00:02.0 with the display on. */
export function intelGraphics(id: string): PciNode {
  return { at: '00:02.0', id, class: '030000', driver: 'i915', attributes: { boot_vga: '1\n' } }
}

export const intelCard: CardNode = {
  name: 'card0',
  pci: '00:02.0',
  render: 'renderD128',
  connectors: { 'eDP-1': 'connected' },
}

export function intelAnswer(id: string): ExpectedGpu {
  return ownGpu(`${id}:0000:0000@02.0`, 'i915', { displays: ['card0/eDP-1'] })
}

/**
 * An AMD processor's graphics behind its internal bridge, with the functions that are always beside it, and its two
 * USB4 host interfaces. `bus` is its bus, `usb` the next one.
 */
export function amdProcessor(
  bus: string,
  gpuId: string,
  usb: string,
  hosts: readonly [string, string],
  gpuClass: string = '030000',
): readonly PciNode[] {
  return [
    bridge(
      '00:08.1',
      '1022:14eb',
      [
        { at: `${bus}:00.0`, id: gpuId, class: gpuClass, driver: 'amdgpu', link: link(16, 16, 16, 16) },
        audio(`${bus}:00.1`, '1002:1640'),
        other(`${bus}:00.2`, '1022:15c7', '108000', 'ccp'),
        other(`${bus}:00.3`, '1022:15b9', '0c0330', 'xhci_hcd'),
      ],
      { link: link(16, 16, 16, 16) },
    ),
    bridge('00:08.3', '1022:14eb', [
      other(`${usb}:00.5`, hosts[0], '0c0340', 'thunderbolt'),
      other(`${usb}:00.6`, hosts[1], '0c0340', 'thunderbolt'),
    ]),
  ]
}

export function amdCard(bus: string, name: string = 'card0'): CardNode {
  return { name, pci: `${bus}:00.0`, render: 'renderD128', connectors: { 'eDP-1': 'connected' } }
}

export function amdAnswer(bus: string, gpuId: string, card: string = 'card0'): ExpectedGpu {
  return ownGpu(`${gpuId}:0000:0000@08.1/00.0`, 'amdgpu', {
    displays: [`${card}/eDP-1`],
    link: { hops: [`0000:${bus}:00.0 real 16 x16`], bottleneck: `0000:${bus}:00.0`, effective: 26.53 },
  })
}
