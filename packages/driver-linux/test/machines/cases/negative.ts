import type { ExpectedGpu, Machine, PciNode } from '../machine.ts'
import {
  amdAnswer,
  amdCard,
  amdProcessor,
  audio,
  box,
  bridge,
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

/** Machines without an external GPU. Each looks like one to somebody. */

const amdFiction = link(2.5, 1, 2.5, 1)

/** Class 0380, behind AMD's switch, on a machine with USB4: and soldered in. */
export const z16: Machine = {
  name: 'thinkpad-z16-internal-navi24',
  case: 37,
  origin: 'Gentoo wiki: Lenovo ThinkPad Z16',
  facts: 'full',
  assumed: 'link speeds, `removable` by the kernel rule',
  kernel: '6.1.0',
  dmi: { chassis: 10, vendor: 'LENOVO', product: '21D4' },
  externalFacing: ['00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', '68:00.5'],
    ['00:04.1', '68:00.6'],
  ],
  pci: [
    bridge(
      '00:01.1',
      '1022:14b8',
      [
        bridge(
          '01:00.0',
          '1002:1478',
          [
            bridge(
              '02:00.0',
              '1002:1479',
              [
                {
                  at: '03:00.0',
                  id: '1002:743f',
                  subsystem: '17aa:50e8',
                  class: '038000',
                  driver: 'amdgpu',
                  link: link(16, 16, 16, 16),
                },
                audio('03:00.1', '1002:ab28'),
              ],
              { link: link(16, 16, 16, 16) },
            ),
          ],
          { link: link(16, 4, 16, 4) },
        ),
      ],
      { link: link(16, 4, 16, 8) },
    ),
    bridge('00:03.1', '1022:14cd', [], { subsystem: '1022:1453', link: amdFiction }),
    bridge('00:04.1', '1022:14cd', [], { subsystem: '1022:1453', link: amdFiction }),
    ...amdProcessor('67', '1002:1681', '68', ['1022:162e', '1022:162f']),
  ],
  hotplugSlots: { 0: '01:00' },
  thunderbolt: [usb4Domain(0, '68:00.5'), usb4Domain(1, '68:00.6')],
  cards: [amdCard('67', 'card1'), { name: 'card0', pci: '03:00.0', render: 'renderD129' }],
  expected: {
    gpus: {
      '0000:67:00.0': amdAnswer('67', '1002:1681', 'card1'),
      '0000:03:00.0': {
        key: '1002:743f:17aa:50e8@01.1/00.0/00.0/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'amdgpu',
        power: 'active',
        displays: [],
        link: {
          hops: ['0000:01:00.0 real 16 x4', '0000:03:00.0 internal 16 x16'],
          bottleneck: '0000:01:00.0',
          effective: 6.63,
        },
      },
    },
    enclosures: {},
    findings: [],
  },
}

/** A card reader that the kernel marked removable by mistake. */
export const phoenix: Machine = {
  name: 'amd-phoenix-removable-card-reader',
  case: 38,
  origin: 'linux-pci 2024-08-22, "Detect and trust built-in Thunderbolt chips" v3',
  facts: 'full',
  kernel: '6.11.0',
  removableRule: '5.16',
  externalFacing: ['00:02.1', '00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', 'c4:00.5'],
    ['00:04.1', 'c4:00.6'],
  ],
  pci: [
    bridge('00:02.1', '1022:14ee', [other('02:00.0', '10ec:5261', 'ff0000', 'rtsx_pci')]),
    bridge('00:03.1', '1022:14ef', [], { link: amdFiction }),
    bridge('00:04.1', '1022:14ef', [], { link: amdFiction }),
    ...amdProcessor('c2', '1002:15bf', 'c4', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [usb4Domain(0, 'c4:00.5'), usb4Domain(1, 'c4:00.6')],
  cards: [amdCard('c2')],
  expected: { gpus: { '0000:c2:00.0': amdAnswer('c2', '1002:15bf') }, enclosures: {}, findings: [] },
}

/** A dock: removable, tunnelled, and no GPU. Tiger Lake has no device links. */
export const dock: Machine = {
  name: 'tiger-lake-caldigit-element-hub',
  case: 40,
  origin: 'wifi-blackout/usbtop-ng design notes',
  facts: 'partial',
  assumed: 'device ids of the switch',
  kernel: '6.12.0',
  externalFacing: ['00:07.0', '00:07.1'],
  pci: [
    intelGraphics('8086:9a49'),
    bridge('00:07.0', '8086:9a23', [], { link: noLink }),
    bridge(
      '00:07.1',
      '8086:9a25',
      [
        bridge('2c:00.0', '8086:0b26', [
          bridge('2d:00.0', '8086:0b26', [other('2e:00.0', '8086:0b27', '0c0330', 'xhci_hcd')]),
        ]),
      ],
      { link: fiction },
    ),
    other('00:0d.2', '8086:9a1b', '0c0340', 'thunderbolt'),
  ],
  thunderbolt: [
    usb4Domain(0, '00:0d.2', [
      box('0-3', 40, {
        vendorName: 'CalDigit, Inc.',
        deviceName: 'Element Hub',
        usb4: { version: '1.0', type: 'hub' },
      }),
    ]),
  ],
  cards: [intelCard],
  expected: {
    gpus: { '0000:00:02.0': intelAnswer('8086:9a49') },
    enclosures: {
      [uuid(40)]: { name: 'Element Hub', port: 'domain0/port3', authorized: true, sticker: 'thunderbolt-4' },
    },
    findings: [],
  },
}

/** Connects and disconnects, and never gets a PCI Express tunnel. */
export const aoostarAg2: Machine = {
  name: 'legion-go-aoostar-ag2-no-tunnel',
  case: 43,
  origin: 'ublue-os/bazzite issue 3786',
  facts: 'partial',
  assumed: 'everything but the router ids',
  kernel: '6.16.0',
  dmi: { chassis: 31, vendor: 'LENOVO', product: '83E1' },
  externalFacing: ['00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', 'c4:00.5'],
    ['00:04.1', 'c4:00.6'],
  ],
  pci: [
    bridge('00:03.1', '1022:14ef', [], { link: amdFiction }),
    bridge('00:04.1', '1022:14ef', [], { link: amdFiction }),
    ...amdProcessor('c1', '1002:15bf', 'c4', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [
    usb4Domain(
      0,
      'c4:00.5',
      [box('0-2', 43, { vendor: '0xb8', device: '0x2463', usb4: { version: '1.0', type: 'device' } })],
      { retimers: ['0-0:1.1', '0-0:2.1'] },
    ),
    usb4Domain(1, 'c4:00.6'),
  ],
  cards: [amdCard('c1')],
  expected: {
    gpus: { '0000:c1:00.0': amdAnswer('c1', '1002:15bf') },
    enclosures: { [uuid(43)]: { port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: ['no-pcie-tunnel error'],
  },
}

/** The same with the port asleep: it has not seen the box. */
export const suspendedPort: Machine = {
  ...aoostarAg2,
  name: 'amd-tunnel-port-suspended',
  case: undefined,
  facts: 'synthetic',
  pci: aoostarAg2.pci.map((node) => (node.at === '00:03.1' ? { ...node, sleep: 'D3cold' as const } : node)),
  expected: { ...aoostarAg2.expected, findings: ['tunnel-port-suspended error'] },
}

/** Retimers show up without anything plugged in. */
export const retimersOnly: Machine = {
  ...phoenix,
  name: 'retimers-without-a-device',
  case: 45,
  origin: 'fwupd/fwupd issues 3356, 3631 and 8578',
  facts: 'partial',
  thunderbolt: [
    usb4Domain(0, 'c4:00.5', [], { retimers: ['0-0:1.1', '0-0:1.2'], ports: { 1: { link: 'tbt' } } }),
    usb4Domain(1, 'c4:00.6', [], { retimers: ['1-0:1.1'] }),
  ],
}

const nvidiaInside: PciNode = bridge(
  '00:01.0',
  '8086:a70d',
  [
    {
      at: '01:00.0',
      id: '10de:28a1',
      subsystem: '1558:7717',
      class: '030000',
      driver: 'nvidia',
      link: link(2.5, 8, 16, 8),
    },
    audio('01:00.1', '10de:22be'),
  ],
  { link: link(2.5, 8, 32, 16) },
)

const nvidiaAnswer: ExpectedGpu = {
  key: '10de:28a1:1558:7717@01.0/00.0',
  verdict: 'internal',
  confidence: 'high',
  stage: 'ready',
  driver: 'nvidia',
  power: 'active',
  link: { hops: ['0000:01:00.0 real 2.5 x8'], bottleneck: '0000:01:00.0', effective: 13.27 },
}

/** An internal GPU in a hot-plug slot, as "Physical Slot: 1" of lspci. */
export const hotplugSlot: Machine = {
  name: 'laptop-dgpu-in-hotplug-slot',
  case: 47,
  origin: 'pop-os/pop issue 3363; NVIDIA/open-gpu-kernel-modules issue 935',
  facts: 'partial',
  assumed: 'ids of a Clevo laptop',
  kernel: '6.9.0',
  dmi: { chassis: 10, vendor: 'System76' },
  externalFacing: ['00:07.0'],
  pci: [
    intelGraphics('8086:a7a0'),
    nvidiaInside,
    bridge('00:07.0', '8086:a76e', [], { link: noLink }),
    other('00:0d.2', '8086:a73e', '0c0340', 'thunderbolt'),
  ],
  hotplugSlots: { 1: '01:00' },
  thunderbolt: [usb4Domain(0, '00:0d.2')],
  cards: [intelCard],
  expected: {
    gpus: { '0000:00:02.0': intelAnswer('8086:a7a0'), '0000:01:00.0': nvidiaAnswer },
    enclosures: {},
    findings: [],
  },
}

/** Two twins in one desktop: internal, and different keys. */
export const twinDesktop: Machine = {
  name: 'desktop-with-two-identical-gpus',
  origin: 'recipe',
  facts: 'synthetic',
  kernel: '6.8.0',
  dmi: { chassis: 3, vendor: 'ASRock' },
  pci: ['01', '02'].map((bus) =>
    bridge(
      `00:0${Number(bus)}.1`,
      '1022:14db',
      [
        {
          at: `${bus}:00.0`,
          id: '10de:2684',
          subsystem: '3842:2681',
          class: '030000',
          driver: 'nvidia',
          link: link(16, 8, 16, 16),
        },
        audio(`${bus}:00.1`, '10de:22ba'),
      ],
      { link: link(16, 8, 32, 8) },
    ),
  ),
  expected: {
    gpus: Object.fromEntries(
      ['01', '02'].map((bus) => [
        `0000:${bus}:00.0`,
        {
          key: `10de:2684:3842:2681@0${Number(bus)}.1/00.0`,
          verdict: 'internal',
          confidence: 'high',
          stage: 'ready',
          driver: 'nvidia',
          power: 'active',
          link: { hops: [`0000:${bus}:00.0 real 16 x8`], bottleneck: `0000:${bus}:00.0`, effective: 13.27 },
        },
      ]),
    ),
    enclosures: {},
    findings: [],
  },
}

/** Another computer on the cable, with a hostile name; nothing of it is a box. */
export const peer: Machine = {
  ...phoenix,
  name: 'another-computer-on-the-cable',
  case: undefined,
  facts: 'synthetic',
  thunderbolt: [
    usb4Domain(0, 'c4:00.5', [], {
      peers: [
        {
          name: '0-1',
          hostName: 'evil\u001b]0;owned\u0007\u001b[31mhost',
          uuid: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee',
        },
      ],
    }),
    usb4Domain(1, 'c4:00.6'),
  ],
}

/** A USB display adapter makes a DRM card that is no GPU. */
export const displayLink: Machine = {
  ...hotplugSlot,
  name: 'displaylink-and-vkms-cards',
  case: undefined,
  origin: 'canonical/lxd issues 9047 and 4925',
  facts: 'synthetic',
  cards: [
    intelCard,
    {
      name: 'card1',
      device: 'devices/pci0000:00/0000:00:0d.2/usb3/3-1/3-1:1.0/evdi.0',
      connectors: { 'DVI-I-1': 'connected' },
    },
    { name: 'card2', device: 'devices/platform/vkms', connectors: { 'Virtual-1': 'connected' } },
  ],
}

/** Thunderbolt 3 controllers are off while nothing is plugged in: the bus is empty, and that is no fault. */
export const emptyBus: Machine = {
  name: 'thunderbolt-3-laptop-nothing-plugged-in',
  origin: 'gicmo/bolt issues 50 and 51',
  facts: 'synthetic',
  kernel: '5.15.0',
  dmi: { chassis: 10 },
  externalFacing: ['00:1c.0'],
  pci: [intelGraphics('8086:3e9b'), nvidiaInside, bridge('00:1c.0', '8086:a338', [], { link: noLink })],
  thunderbolt: [],
  cards: [intelCard],
  expected: {
    gpus: { '0000:00:02.0': intelAnswer('8086:3e9b'), '0000:01:00.0': nvidiaAnswer },
    enclosures: {},
    findings: [],
  },
}

/** NVMe drives and network cards in a Thunderbolt box are removable too. */
export const nvmeBox: Machine = {
  name: 'nvme-in-a-thunderbolt-box',
  origin: 'recipe',
  facts: 'synthetic',
  kernel: '6.12.0',
  dmi: { chassis: 10 },
  externalFacing: ['00:1c.0'],
  removableRule: '5.16',
  pci: [
    intelGraphics('8086:3e9b'),
    nvidiaInside,
    bridge('00:1c.0', '8086:a338', [
      bridge('05:00.0', '8086:15ea', [
        bridge('06:00.0', '8086:15ea', [other('07:00.0', '8086:15eb', '088000', 'thunderbolt')]),
        bridge('06:01.0', '8086:15ea', [
          bridge('08:00.0', '8086:15c0', [
            bridge('09:01.0', '8086:15c0', [other('0a:00.0', '144d:a808', '010802', 'nvme')]),
          ]),
        ]),
      ]),
    ]),
  ],
  thunderbolt: [
    thunderbolt3Domain(0, '07:00.0', [
      box('0-1', 46, { generation: '3', vendorName: 'Samsung', deviceName: 'Portable SSD X5' }),
    ]),
  ],
  cards: [intelCard],
  expected: {
    gpus: { '0000:00:02.0': intelAnswer('8086:3e9b'), '0000:01:00.0': nvidiaAnswer },
    enclosures: {
      [uuid(46)]: { name: 'Portable SSD X5', port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' },
    },
    findings: [],
  },
}

/** A server with accelerators and a management display. No GPU of it is on a cable; accelerators are not GPUs here. */
export const server: Machine = {
  name: 'server-with-aspeed-display',
  origin: 'recipe',
  facts: 'synthetic',
  kernel: '6.8.0',
  dmi: { chassis: 23 },
  pci: [
    bridge('00:1c.5', '8086:a115', [
      bridge('03:00.0', '1a03:1150', [
        {
          at: '04:00.0',
          id: '1a03:2000',
          subsystem: '15d9:0980',
          class: '030000',
          driver: 'ast',
          attributes: { boot_vga: '1\n' },
        },
      ]),
    ]),
    bridge('00:01.0', '8086:2f02', [other('05:00.0', '1da3:1000', '120000', 'habanalabs')]),
  ],
  hotplugSlots: { 4: '05:00' },
  cards: [{ name: 'card0', pci: '04:00.0', connectors: { 'VGA-1': 'disconnected' } }],
  expected: {
    gpus: {
      '0000:04:00.0': {
        key: '1a03:2000:15d9:0980@1c.5/00.0/00.0',
        verdict: 'internal',
        confidence: 'high',
        stage: 'ready',
        driver: 'ast',
        power: 'active',
        displays: [],
        link: { hops: ['0000:03:00.0 real'] },
      },
    },
    enclosures: {},
    findings: [],
  },
}

/** Intel VMD puts drives into a PCI domain of its own, with five digits. */
export const vmd: Machine = {
  ...hotplugSlot,
  name: 'vmd-domain-with-five-digits',
  case: undefined,
  origin: 'ewagner12/all-ways-egpu issues 6 and 31',
  facts: 'synthetic',
  pci: [
    ...hotplugSlot.pci,
    {
      at: '00:0e.0',
      id: '8086:467f',
      class: '010400',
      driver: 'vmd',
      below: [bridge('10000:e0:06.0', '8086:464d', [other('10000:e1:00.0', '144d:a80a', '010802', 'nvme')])],
    },
  ],
}

/** What this project's own tests run on: six virtio functions, no GPU, no Thunderbolt. */
export const microVm: Machine = {
  name: 'virtual-machine-without-gpu',
  origin: 'Firecracker with PCI',
  facts: 'synthetic',
  pci: [
    other('00:00.0', '8086:0d57', '060000'),
    other('00:01.0', '1af4:1045', 'ffff00', 'virtio-pci'),
    other('00:02.0', '1af4:1042', '018000', 'virtio-pci'),
  ],
  expected: { gpus: {}, enclosures: {}, findings: [] },
}

/** Three boxes in a row and none with a GPU, as the tests of bolt chain them. */
export const chainOfThree: Machine = {
  ...phoenix,
  name: 'three-docks-in-a-row',
  case: 50,
  origin: 'gicmo/bolt tests/test-integration',
  facts: 'synthetic',
  thunderbolt: [
    usb4Domain(
      0,
      'c4:00.5',
      [
        box('0-1', 1, { generation: '3' }),
        box('0-101', 2, { generation: '3' }),
        box('0-30101', 3, { generation: '3' }),
      ],
      {
        bootAcl: `${uuid(1)},${uuid(2)},,`,
      },
    ),
    usb4Domain(1, 'c4:00.6'),
  ],
  expected: {
    ...phoenix.expected,
    enclosures: {
      [uuid(1)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' },
      [uuid(2)]: { port: 'domain0/port1/port1', parent: uuid(1), authorized: true, sticker: 'thunderbolt-3' },
      [uuid(3)]: { port: 'domain0/port1/port1/port3', parent: uuid(2), authorized: true, sticker: 'thunderbolt-3' },
    },
  },
}
