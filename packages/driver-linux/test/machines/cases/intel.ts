import type { DomainNode, ExpectedGpu, Machine, PciNode, RouterNode } from '../machine.ts'
import {
  audio,
  box,
  bridge,
  cableLink,
  fiction,
  intelAnswer,
  intelCard,
  intelGraphics,
  link,
  noLink,
  other,
  thunderbolt3Domain,
  usb4Domain,
  uuid,
} from '../parts.ts'

/** A GPU in a box right below a port: switch up, switch down, card. Buses are numbered from `first`. */
export function boxBelow(
  first: number,
  switchId: string,
  gpu: Omit<PciNode, 'at' | 'class'>,
  audioId?: string,
): PciNode {
  const bus = (offset: number): string => (first + offset).toString(16).padStart(2, '0')
  const card: PciNode = { at: `${bus(2)}:00.0`, class: '030000', link: link(8, 4, 16, 16), ...gpu }
  const siblings = audioId === undefined ? [] : [audio(`${bus(2)}:00.1`, audioId)]
  return bridge(
    `${bus(0)}:00.0`,
    switchId,
    [bridge(`${bus(1)}:00.0`, switchId, [card, ...siblings], { link: link(8, 4, 16, 4) })],
    { link: fiction },
  )
}

interface Laptop {
  readonly igpu: string
  readonly ports: readonly [string, string]
  readonly nhis: readonly [string, string]
  readonly box?: PciNode | undefined
  readonly more?: readonly PciNode[] | undefined
}

/** A laptop with Intel's integrated controller: two ports, 00:07.0 and 00:07.2, each with a host interface. */
function laptop({ igpu, ports, nhis, box, more = [] }: Laptop): readonly PciNode[] {
  return [
    intelGraphics(igpu),
    bridge('00:07.0', ports[0], box === undefined ? [] : [box], { link: box === undefined ? noLink : fiction }),
    bridge('00:07.2', ports[1], [], { link: noLink }),
    other('00:0d.2', nhis[0], '0c0340', 'thunderbolt'),
    other('00:0d.3', nhis[1], '0c0340', 'thunderbolt'),
    ...more,
  ]
}

const intelLinks = [
  ['00:07.0', '00:0d.2'],
  ['00:07.2', '00:0d.3'],
] as const

function domains(routers: readonly RouterNode[], more: Partial<DomainNode> = {}): readonly DomainNode[] {
  return [usb4Domain(0, '00:0d.2', routers, more), usb4Domain(1, '00:0d.3')]
}

function boxed(n: number, more: Partial<ExpectedGpu> = {}): ExpectedGpu {
  return {
    key: `${uuid(n)}/0`,
    verdict: 'external',
    confidence: 'high',
    transport: 'usb4',
    stage: 'ready',
    driver: 'nvidia',
    enclosure: uuid(n),
    port: 'domain0/port1',
    speed: 'thunderbolt-4',
    power: 'active',
    link: cableLink(['0000:02:00.0 virtual', '0000:04:00.0 real 8 x4']),
    ...more,
  }
}

export const raptorLake: Machine = {
  name: 'raptor-lake-sonnet-850t5-rtx5080',
  case: 15,
  origin: 'NVIDIA/open-gpu-kernel-modules issue 979, comments',
  facts: 'partial',
  assumed: 'buses but the GPU, subsystem ids',
  kernel: '6.17.0',
  dmi: { chassis: 10 },
  externalFacing: ['00:07.0', '00:07.2'],
  usb4Links: intelLinks,
  pci: laptop({
    igpu: '8086:a7a0',
    ports: ['8086:a76e', '8086:a72f'],
    nhis: ['8086:a73e', '8086:a76d'],
    box: boxBelow(0x12, '8086:5786', { id: '10de:2c02', subsystem: '1043:8a2c', driver: 'nvidia' }, '10de:22e9'),
  }),
  thunderbolt: domains([
    box('0-1', 15, {
      vendor: '0x8',
      device: '0x65',
      vendorName: 'Sonnet Technologies, Inc.',
      deviceName: 'Breakaway Box 850 T5',
      usb4: { version: '2.0', type: 'hub' },
    }),
  ]),
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:a7a0'),
      '0000:14:00.0': boxed(15, { link: cableLink(['0000:12:00.0 virtual', '0000:14:00.0 real 8 x4']) }),
    },
    enclosures: {
      [uuid(15)]: { name: 'Breakaway Box 850 T5', port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' },
    },
    findings: [],
  },
}

/** Two NVIDIA GPUs, one in the laptop and one in the box. */
export const x1Extreme: Machine = {
  name: 'x1-extreme-gtx1650-hp-accelerator-gtx980ti',
  case: 18,
  origin: 'hertg/egpu-switcher issue 78',
  facts: 'synthetic',
  assumed: 'the tree',
  kernel: '5.15.0',
  dmi: { chassis: 10, vendor: 'LENOVO', product: '20QV' },
  removableRule: '5.16',
  externalFacing: ['00:1c.0'],
  pci: [
    intelGraphics('8086:3e9b'),
    bridge(
      '00:01.0',
      '8086:1901',
      [
        {
          at: '01:00.0',
          id: '10de:1f91',
          subsystem: '17aa:229f',
          class: '030000',
          driver: 'nvidia',
          sleep: 'D3cold',
        },
        audio('01:00.1', '10de:10fa'),
      ],
      { sleep: 'D3cold' },
    ),
    bridge(
      '00:1c.0',
      '8086:a338',
      [
        bridge(
          '05:00.0',
          '8086:15ea',
          [
            bridge('06:00.0', '8086:15ea', [other('07:00.0', '8086:15eb', '088000', 'thunderbolt')]),
            bridge('06:01.0', '8086:15ea', [
              boxBelow(
                0x08,
                '8086:1578',
                { id: '10de:17c8', subsystem: '3842:4992', driver: 'nvidia', link: link(8, 4, 8, 16) },
                '10de:0fb0',
              ),
            ]),
          ],
          { link: link(8, 4, 8, 4) },
        ),
      ],
      { link: link(8, 4, 8, 4) },
    ),
  ],
  thunderbolt: [
    thunderbolt3Domain(
      0,
      '07:00.0',
      [box('0-1', 18, { generation: '3', boot: '1', vendorName: 'HP Inc.', deviceName: 'OMEN Accelerator' })],
      { bootAcl: `${uuid(18)},,,,,,,,,,,,,,,` },
    ),
  ],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:3e9b'),
      '0000:01:00.0': {
        key: '10de:1f91:17aa:229f@01.0/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'nvidia',
        power: 'suspended',
        link: { hops: ['0000:01:00.0 real'] },
      },
      '0000:0a:00.0': boxed(18, {
        transport: 'thunderbolt',
        speed: 'thunderbolt-3',
        link: cableLink(['0000:05:00.0 real 8 x4', '0000:08:00.0 virtual', '0000:0a:00.0 real 8 x4'], 'thunderbolt-3'),
      }),
    },
    enclosures: {
      [uuid(18)]: { name: 'OMEN Accelerator', port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' },
    },
    findings: [],
  },
}

/** Ice Lake has no `usb4-host-interface` property; the kernel and we know its ports by id. */
export const iceLake: Machine = {
  name: 'xps-13-7390-2in1-core-x-chroma',
  case: 19,
  origin: 'hertg/egpu-switcher issue 60',
  facts: 'partial',
  assumed: 'buses, the card (an AMD one, the report does not say which)',
  kernel: '5.15.0',
  dmi: { chassis: 31, vendor: 'Dell Inc.', product: 'XPS 13 7390 2-in-1' },
  removableRule: 'none',
  pci: laptop({
    igpu: '8086:8a52',
    ports: ['8086:8a1d', '8086:8a21'],
    nhis: ['8086:8a17', '8086:8a0d'],
    box: boxBelow(0x02, '8086:15d3', {
      id: '1002:67df',
      subsystem: '1da2:e366',
      driver: 'amdgpu',
      link: link(8, 4, 8, 16),
    }),
  }),
  thunderbolt: [
    thunderbolt3Domain(
      0,
      '00:0d.2',
      [box('0-1', 19, { generation: '3', vendorName: 'Razer', deviceName: 'Core X Chroma' })],
      { security: 'none' },
    ),
    thunderbolt3Domain(1, '00:0d.3'),
  ],
  cards: [intelCard, { name: 'card1', pci: '04:00.0', render: 'renderD129', connectors: { 'DP-3': 'connected' } }],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:8a52'),
      '0000:04:00.0': boxed(19, {
        transport: 'thunderbolt',
        driver: 'amdgpu',
        speed: 'thunderbolt-3',
        displays: ['card1/DP-3'],
        link: cableLink(['0000:02:00.0 virtual', '0000:04:00.0 real 8 x4'], 'thunderbolt-3'),
      }),
    },
    enclosures: {
      [uuid(19)]: { name: 'Core X Chroma', port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' },
    },
    findings: [],
  },
}

export const p1Gen3: Machine = {
  name: 'thinkpad-p1-sonnet-750ex',
  case: 21,
  origin: 'danbev/learning-ai notes/egpu.md',
  facts: 'partial',
  assumed: 'everything but the address of the GPU',
  kernel: '6.8.0',
  dmi: { chassis: 10, vendor: 'LENOVO', product: '20TH' },
  externalFacing: ['00:1c.0'],
  pci: [
    intelGraphics('8086:9bc4'),
    bridge(
      '00:1c.0',
      '8086:06b8',
      [
        bridge(
          '04:00.0',
          '8086:15ea',
          [
            bridge('05:00.0', '8086:15ea', [other('06:00.0', '8086:15eb', '088000', 'thunderbolt')]),
            bridge('05:01.0', '8086:15ea', [
              boxBelow(0x07, '8086:15ef', { id: '10de:2882', subsystem: '1462:5160', driver: 'nvidia' }, '10de:22be'),
            ]),
          ],
          { link: link(8, 4, 8, 4) },
        ),
      ],
      { link: link(8, 4, 8, 4) },
    ),
  ],
  thunderbolt: [
    thunderbolt3Domain(0, '06:00.0', [
      box('0-1', 21, {
        generation: '3',
        vendor: '0x8',
        vendorName: 'Sonnet Technologies, Inc',
        deviceName: 'eGPU Breakaway Box 750ex',
      }),
    ]),
  ],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:9bc4'),
      '0000:09:00.0': boxed(21, {
        transport: 'thunderbolt',
        speed: 'thunderbolt-3',
        link: cableLink(['0000:04:00.0 real 8 x4', '0000:07:00.0 virtual', '0000:09:00.0 real 8 x4'], 'thunderbolt-3'),
      }),
    },
    enclosures: {
      [uuid(21)]: {
        name: 'eGPU Breakaway Box 750ex',
        port: 'domain0/port1',
        authorized: true,
        sticker: 'thunderbolt-3',
      },
    },
    findings: [],
  },
}

/** Trained at half of what both ends can do. */
export const fallback20G: Machine = {
  name: 'cable-fell-back-to-20-gbps',
  case: 29,
  origin: 'FrameworkComputer/SoftwareFirmwareIssueTracker issue 56',
  facts: 'partial',
  assumed: 'the tree; the report is the two numbers',
  kernel: '6.14.0',
  dmi: { chassis: 10 },
  externalFacing: ['00:07.0', '00:07.2'],
  usb4Links: intelLinks,
  pci: laptop({
    igpu: '8086:46a6',
    ports: ['8086:466e', '8086:462f'],
    nhis: ['8086:463e', '8086:466d'],
    box: boxBelow(0x02, '8086:0b26', { id: '10de:2489', subsystem: '1043:87f3', driver: 'nvidia' }),
  }),
  thunderbolt: domains([box('0-1', 29, { rx: ['10.0', '2'] })]),
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:46a6'),
      '0000:04:00.0': boxed(29, {
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x10/2x10',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 1.89,
          downgrade: 'cable',
        },
      }),
    },
    enclosures: { [uuid(29)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' } },
    findings: ['link-degraded warning'],
  },
}

/** Security level `secure`: authorized by key. */
export const secureLevel: Machine = {
  ...p1Gen3,
  name: 'x1-carbon-5-aorus-gtx1070-secure',
  case: 30,
  origin: 'pocketnix.org 2017 guide',
  facts: 'synthetic',
  assumed: 'the tree',
  kernel: '4.13.0',
  removableRule: 'none',
  thunderbolt: [
    thunderbolt3Domain(
      0,
      '06:00.0',
      [
        box('0-1', 30, {
          generation: '3',
          vendor: '0xed',
          device: '0x3702',
          vendorName: 'GIGABYTE',
          deviceName: 'GTX1070 Gaming Box',
          authorized: '2',
          key: 'f'.repeat(64),
          // A firmware connection manager makes up ids of its own.
          uuid: 'c0030000-00a2-8508-2219-2d8d1d0b4f01',
        }),
      ],
      { security: 'secure' },
    ),
  ],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:9bc4'),
      '0000:09:00.0': boxed(30, {
        key: 'c0030000-00a2-8508-2219-2d8d1d0b4f01/0',
        enclosure: 'c0030000-00a2-8508-2219-2d8d1d0b4f01',
        transport: 'thunderbolt',
        speed: 'thunderbolt-3',
        link: cableLink(['0000:04:00.0 real 8 x4', '0000:07:00.0 virtual', '0000:09:00.0 real 8 x4'], 'thunderbolt-3'),
      }),
    },
    enclosures: {
      'c0030000-00a2-8508-2219-2d8d1d0b4f01': {
        name: 'GTX1070 Gaming Box',
        port: 'domain0/port1',
        authorized: true,
        sticker: 'thunderbolt-3',
      },
    },
    findings: [],
  },
}

/** Unplugged and plugged in again: other buses, other order of the host's domains, the same key. */
export const replugged: Machine = {
  ...raptorLake,
  name: 'raptor-lake-replugged-other-buses',
  case: 23,
  origin: 'NVIDIA/open-gpu-kernel-modules issue 842',
  facts: 'synthetic',
  pci: laptop({
    igpu: '8086:a7a0',
    ports: ['8086:a76e', '8086:a72f'],
    nhis: ['8086:a73e', '8086:a76d'],
    box: boxBelow(0x52, '8086:5786', { id: '10de:2504', subsystem: '1462:397e', driver: 'nvidia' }),
  }),
  expected: {
    ...raptorLake.expected,
    gpus: {
      '0000:00:02.0': intelAnswer('8086:a7a0'),
      '0000:54:00.0': boxed(15, { link: cableLink(['0000:52:00.0 virtual', '0000:54:00.0 real 8 x4']) }),
    },
  },
}

/** A sleeping GPU: nothing that reaches into it is read, so nothing is known of its link but the cable. */
export const asleep: Machine = {
  ...fallback20G,
  name: 'external-gpu-in-d3cold',
  case: undefined,
  origin: 'Documentation/power/pci.rst',
  facts: 'synthetic',
  pci: laptop({
    igpu: '8086:46a6',
    ports: ['8086:466e', '8086:462f'],
    nhis: ['8086:463e', '8086:466d'],
    box: bridge(
      '02:00.0',
      '8086:0b26',
      [
        bridge(
          '03:00.0',
          '8086:0b26',
          [
            {
              at: '04:00.0',
              id: '1002:73bf',
              subsystem: '1da2:440e',
              class: '030000',
              driver: 'amdgpu',
              sleep: 'D3cold',
              link: { speed: 'unreadable', width: 'unreadable', maxSpeed: '64.0 GT/s PCIe', maxWidth: '255' },
            },
          ],
          { sleep: 'D3cold', link: { speed: 'unreadable', width: 'unreadable', maxWidth: '255' } },
        ),
      ],
      { sleep: 'D3cold', link: { speed: 'unreadable', width: 'unreadable', maxWidth: '255' } },
    ),
  }),
  thunderbolt: domains([box('0-1', 40)]),
  cards: [intelCard, { name: 'card1', pci: '04:00.0', render: 'renderD129', connectors: { 'DP-1': 'disconnected' } }],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:46a6'),
      '0000:04:00.0': boxed(40, {
        driver: 'amdgpu',
        power: 'suspended',
        displays: [],
        link: {
          sticker: 'thunderbolt-4',
          trained: '2x20/2x20',
          hops: ['0000:02:00.0 virtual', '0000:04:00.0 real'],
        },
      }),
    },
    enclosures: { [uuid(40)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' } },
    findings: [],
  },
}

/** A host and a box of Thunderbolt 5, three lanes to the device and one back. */
export const asymmetric: Machine = {
  ...raptorLake,
  name: 'thunderbolt-5-asymmetric',
  case: undefined,
  origin: 'Documentation/ABI/testing/sysfs-bus-thunderbolt: the attributes are the view of the box',
  facts: 'synthetic',
  thunderbolt: [
    usb4Domain(
      0,
      '00:0d.2',
      [
        box('0-1', 41, {
          rx: ['40.0', '3'],
          tx: ['40.0', '1'],
          usb4: { version: '2.0', type: 'hub' },
        }),
      ],
      { host: { generation: '4', usb4: '2.0' } },
    ),
    usb4Domain(1, '00:0d.3', [], { host: { generation: '4', usb4: '2.0' } }),
  ],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:a7a0'),
      '0000:14:00.0': boxed(41, {
        speed: 'thunderbolt-5',
        link: {
          sticker: 'thunderbolt-5',
          trained: '3x40/1x40',
          hops: ['0000:12:00.0 virtual', '0000:14:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 5.8,
        },
      }),
    },
    enclosures: { [uuid(41)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-5' } },
    findings: [],
  },
}

/** Two boxes on the two ports of one controller: the order of the ports tells them apart. */
export const twoPorts: Machine = {
  name: 'two-boxes-on-two-ports-of-one-controller',
  origin: 'recipe: one host interface, root ports 07.0 and 07.1',
  facts: 'synthetic',
  kernel: '6.14.0',
  externalFacing: ['00:07.0', '00:07.1'],
  usb4Links: [
    ['00:07.0', '00:0d.2'],
    ['00:07.1', '00:0d.2'],
  ],
  pci: [
    intelGraphics('8086:46a6'),
    bridge(
      '00:07.0',
      '8086:466e',
      [boxBelow(0x02, '8086:0b26', { id: '10de:2489', subsystem: '1043:87f3', driver: 'nvidia' })],
      { link: fiction },
    ),
    bridge(
      '00:07.1',
      '8086:463f',
      [boxBelow(0x32, '8086:0b26', { id: '10de:2489', subsystem: '1043:87f3', driver: 'nvidia' })],
      { link: fiction },
    ),
    other('00:0d.2', '8086:463e', '0c0340', 'thunderbolt'),
  ],
  thunderbolt: [usb4Domain(0, '00:0d.2', [box('0-1', 50), box('0-3', 51)])],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:46a6'),
      '0000:04:00.0': boxed(50),
      '0000:34:00.0': boxed(51, {
        port: 'domain0/port3',
        link: cableLink(['0000:32:00.0 virtual', '0000:34:00.0 real 8 x4']),
      }),
    },
    enclosures: {
      [uuid(50)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' },
      [uuid(51)]: { port: 'domain0/port3', authorized: true, sticker: 'thunderbolt-4' },
    },
    findings: [],
  },
}
