import type { Entry } from '../tree.ts'
import type { DomainNode, Machine, PciNode, RouterNode } from '../machine.ts'
import { audio, bridge, fiction, GiB, link, MiB, noLink, other } from '../parts.ts'

/**
 * ASUS NUC 15 Pro (Arrow Lake-H, Thunderbolt 4 inside the processor) with a GIGABYTE AORUS RTX5090 AI BOX
 * (Thunderbolt 5, JHL9480): iecxiv/aorus-5060-egpu, archive/state-captures. The unique id is made up, and the serial
 * number with it.
 */
const uuid = 'efcdab89-6745-2301-ffff-ffffffffffff'
export const aorusKey: string = `${uuid}/0`

const origin = 'iecxiv/aorus-5060-egpu archive/state-captures'
const name = 'AORUS RTX5090 AI BOX'

interface Plugged {
  /** Second digit of the port's address and of the host interface: port A is 0 and 2, port B is 2 and 3. */
  readonly rootPort: string
  readonly buses: readonly [string, string, string]
  readonly gpu: Partial<PciNode>
  readonly slot: PciNode['link']
  readonly audioLink?: PciNode['link']
  readonly serial?: string | undefined
}

function box({ buses, gpu, slot, audioLink, serial }: Plugged): PciNode {
  const [up, down, card] = buses
  const attributes: Readonly<Record<string, Entry>> = serial === undefined ? {} : { serial_number: `${serial}\n` }
  return bridge(
    `${up}:00.0`,
    '8086:5786',
    [
      bridge(
        `${down}:00.0`,
        '8086:5786',
        [
          {
            at: `${card}:00.0`,
            id: '10de:2b85',
            subsystem: '1458:41b6',
            class: '030000',
            bars: [
              { size: 64 * MiB },
              { size: 32 * GiB, prefetchable: true },
              { size: 0 },
              { size: 32 * MiB, prefetchable: true },
            ],
            ...gpu,
          },
          { ...audio(`${card}:00.1`, '10de:22e8'), ...(audioLink === undefined ? {} : { link: audioLink }) },
        ],
        { link: slot },
      ),
      bridge(`${down}:01.0`, '8086:5786', [], { link: fiction }),
      bridge(`${down}:02.0`, '8086:5786', [], { link: fiction }),
      bridge(`${down}:03.0`, '8086:5786', [], { link: fiction }),
    ],
    { link: fiction, attributes },
  )
}

const host: readonly PciNode[] = [
  other('00:00.0', '8086:7d1a', '060000'),
  { at: '00:02.0', id: '8086:7d51', class: '030000', driver: 'i915', attributes: { boot_vga: '1\n' } },
  other('00:0d.0', '8086:7ec0', '0c0330', 'xhci_hcd'),
  other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
  other('00:0d.3', '8086:7ec3', '0c0340', 'thunderbolt'),
  other('00:14.0', '8086:777d', '0c0330', 'xhci_hcd'),
]

function pci(plugged: Plugged | undefined): readonly PciNode[] {
  const port = (at: string, id: string): PciNode =>
    plugged?.rootPort === at ? bridge(at, id, [box(plugged)], { link: fiction }) : bridge(at, id, [], { link: noLink })
  return [...host, port('00:07.0', '8086:7ec4'), port('00:07.2', '8086:7ec6')]
}

const routerBase: Omit<RouterNode, 'name'> = {
  vendor: '0xed',
  device: '0x41b6',
  vendorName: 'GIGABYTE',
  deviceName: name,
  generation: '4',
  rx: ['20.0', '2'],
  authorized: '1',
  boot: '0',
  uuid,
  nvm: '62.2',
  usb4: { version: '2.0', type: 'hub' },
}

function thunderbolt(routers: readonly RouterNode[], protection: '0' | '1' = '0'): readonly DomainNode[] {
  return [0, 1].map((index) => {
    const own = routers.filter((router) => router.name.startsWith(`${index}-`))
    return {
      index,
      nhi: `00:0d.${index + 2}`,
      security: 'user',
      iommuDmaProtection: protection,
      host: { generation: '4', usb4: '1.0', deviceName: 'Gen14', vendorName: 'Intel' },
      routers: own,
      retimers: own.length > 0 ? [`${index}-0:1.1`] : [],
      ports: { 1: { link: own.length > 0 ? 'usb4' : 'none' } },
    }
  })
}

const common: Pick<Machine, 'origin' | 'facts' | 'kernel' | 'dmi' | 'externalFacing' | 'usb4Links' | 'assumed'> = {
  origin,
  facts: 'full',
  assumed: 'the unique id and the serial number, `removable` by the kernel rule, the iGPU as boot display',
  kernel: '6.19.14',
  dmi: { chassis: 35, vendor: 'ASUS', product: 'NUC15CRH' },
  externalFacing: ['00:07.0', '00:07.2'],
  usb4Links: [
    ['00:07.0', '00:0d.2'],
    ['00:07.2', '00:0d.3'],
  ],
}

const igpuCard = {
  name: 'card0',
  pci: '00:02.0',
  render: 'renderD128',
  connectors: { 'HDMI-A-1': 'connected' },
} as const

const igpu = {
  key: '8086:7d51:0000:0000@02.0',
  verdict: 'internal',
  confidence: 'high',
  stage: 'ready',
  driver: 'i915',
  power: 'active',
  displays: ['card0/HDMI-A-1'],
} as const

const enclosure = { name, authorized: true, sticker: 'thunderbolt-4' } as const

const external = {
  key: aorusKey,
  verdict: 'external',
  confidence: 'high',
  transport: 'usb4',
  enclosure: uuid,
  speed: 'thunderbolt-4',
  power: 'active',
} as const

export const aorusHealthyUnbound: Machine = {
  ...common,
  name: 'aorus-healthy-unbound',
  case: 1,
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(16, 4, 16, 4),
    gpu: { link: link(16, 4, 32, 16) },
    serial: '01-23-45-67-89-ab-cd-ef',
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        ...external,
        stage: 'present',
        port: 'domain0/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 16 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, port: 'domain0/port1' } },
    findings: ['no-driver warning', 'no-dma-protection info'],
  },
}

export const aorusPortB: Machine = {
  ...common,
  name: 'aorus-port-b',
  case: 2,
  pci: pci({
    rootPort: '00:07.2',
    buses: ['2c', '2d', '2e'],
    slot: link(8, 4, 16, 4),
    gpu: { link: link(8, 4, 32, 16), driver: 'nvidia' },
    serial: '01-23-45-67-89-ab-cd-ef',
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '1-1' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:2e:00.0': {
        ...external,
        stage: 'ready',
        driver: 'nvidia',
        port: 'domain1/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:2c:00.0 virtual', '0000:2e:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, port: 'domain1/port1' } },
    findings: ['no-dma-protection info'],
  },
}

export const aorusLost: Machine = {
  ...common,
  name: 'aorus-lost-node-remains',
  case: 3,
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(2.5, 4, 16, 4),
    audioLink: link(2.5, 4, 32, 16),
    gpu: {
      driver: 'nvidia',
      link: { speed: 'unreadable', width: 'unreadable', maxSpeed: '32.0 GT/s PCIe', maxWidth: '255' },
    },
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        ...external,
        stage: 'lost',
        driver: 'nvidia',
        power: 'disconnected',
        port: 'domain0/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 2.5 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, port: 'domain0/port1' } },
    findings: ['gpu-lost error', 'no-dma-protection info'],
  },
}

export const aorusIdle: Machine = {
  ...common,
  name: 'aorus-idle-link-speed',
  case: 4,
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(2.5, 4, 16, 4),
    gpu: { link: link(2.5, 4, 32, 16), driver: 'nvidia' },
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        ...external,
        stage: 'ready',
        driver: 'nvidia',
        port: 'domain0/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 2.5 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, port: 'domain0/port1' } },
    findings: ['no-dma-protection info'],
  },
}

export const aorusUnauthorized: Machine = {
  ...common,
  name: 'aorus-unauthorized-after-host-reset',
  case: 5,
  pci: pci(undefined),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1', authorized: '0' }]),
  cards: [igpuCard],
  expected: {
    gpus: { '0000:00:02.0': igpu },
    enclosures: { [uuid]: { ...enclosure, authorized: false, port: 'domain0/port1' } },
    findings: ['enclosure-unauthorized error'],
  },
}

/** The moment after the router's `remove` event: the PCI nodes are still there. */
export const aorusUnplugged: Machine = {
  ...common,
  name: 'aorus-router-gone-node-remains',
  case: 6,
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(16, 4, 16, 4),
    gpu: { link: link(16, 4, 32, 16), driver: 'nvidia' },
  }),
  thunderbolt: thunderbolt([]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        key: '10de:2b85:1458:41b6',
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'lost',
        driver: 'nvidia',
        power: 'disconnected',
        link: { hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 16 x4'] },
      },
    },
    enclosures: {},
    findings: ['gpu-lost error'],
  },
}

export const aorusSmallBar: Machine = {
  ...common,
  name: 'aorus-small-bar-after-replug',
  case: 7,
  origin: 'apnex nvidia-driver-injector E07',
  facts: 'partial',
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(16, 4, 16, 4),
    gpu: {
      driver: 'nvidia',
      link: link(16, 4, 32, 16),
      bars: [
        { size: 64 * MiB },
        { size: 256 * MiB, prefetchable: true },
        { size: 0 },
        { size: 32 * MiB, prefetchable: true },
      ],
      attributes: { resource1_resize: '000000000000ffc0\n' },
    },
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        ...external,
        stage: 'ready',
        driver: 'nvidia',
        port: 'domain0/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 16 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, port: 'domain0/port1' } },
    findings: ['bar-too-small warning', 'no-dma-protection info'],
  },
}

/** Plugged in again while the old node is still there: the box waits for authorization, the node is a ghost. */
export const aorusGhost: Machine = {
  ...common,
  name: 'aorus-replugged-unauthorized-node-remains',
  origin: 'apnex nvidia-driver-injector E07',
  facts: 'partial',
  pci: pci({
    rootPort: '00:07.0',
    buses: ['02', '03', '04'],
    slot: link(16, 4, 16, 4),
    gpu: { link: link(16, 4, 32, 16), driver: 'nvidia' },
  }),
  thunderbolt: thunderbolt([{ ...routerBase, name: '0-1', authorized: '0' }]),
  cards: [igpuCard],
  expected: {
    gpus: {
      '0000:00:02.0': igpu,
      '0000:04:00.0': {
        ...external,
        stage: 'lost',
        driver: 'nvidia',
        power: 'disconnected',
        port: 'domain0/port1',
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 16 x4'],
          bottleneck: 'cable',
          effective: 3.79,
        },
      },
    },
    enclosures: { [uuid]: { ...enclosure, authorized: false, port: 'domain0/port1' } },
    findings: ['enclosure-unauthorized error', 'gpu-lost error'],
  },
}
