import type { Machine } from '../machine.ts'
import {
  amdAnswer,
  amdCard,
  amdProcessor,
  audio,
  box,
  bridge,
  cableLink,
  fiction,
  link,
  noLink,
  usb4Domain,
  uuid,
} from '../parts.ts'

/** What AMD's tunnel ports say of themselves. */
const amdFiction = link(2.5, 1, 2.5, 1)

const framework = uuid(10)

export const framework13: Machine = {
  name: 'framework-13-th3p4g3-rx5700xt',
  case: 10,
  origin: 'ewagner12/all-ways-egpu issue 37',
  facts: 'partial',
  assumed: 'bus numbers, subsystem ids, the processor graphics',
  kernel: '6.5.0',
  dmi: { chassis: 10, vendor: 'Framework', product: 'Laptop 13 (AMD Ryzen 7040Series)' },
  externalFacing: ['00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', 'c4:00.5'],
    ['00:04.1', 'c4:00.6'],
  ],
  pci: [
    bridge(
      '00:03.1',
      '1022:14ef',
      [
        bridge(
          '04:00.0',
          '8086:15e7',
          [
            bridge(
              '05:01.0',
              '8086:15e7',
              [
                bridge(
                  '06:00.0',
                  '1002:1478',
                  [
                    bridge(
                      '07:00.0',
                      '1002:1479',
                      [
                        {
                          at: '08:00.0',
                          id: '1002:731f',
                          subsystem: '1da2:e410',
                          class: '030000',
                          driver: 'amdgpu',
                          link: link(16, 16, 16, 16),
                          attributes: { mem_info_vram_total: '8573157376\n' },
                        },
                        audio('08:00.1', '1002:ab38'),
                      ],
                      { link: link(16, 16, 16, 16) },
                    ),
                  ],
                  { link: link(8, 4, 16, 16) },
                ),
              ],
              { link: link(8, 4, 8, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: amdFiction },
    ),
    bridge('00:04.1', '1022:14ef', [], { link: amdFiction }),
    ...amdProcessor('c1', '1002:15bf', 'c4', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [usb4Domain(0, 'c4:00.5', [box('0-2', 10, { generation: '3' })]), usb4Domain(1, 'c4:00.6')],
  cards: [
    amdCard('c1', 'card1'),
    {
      name: 'card0',
      pci: '08:00.0',
      render: 'renderD129',
      connectors: { 'DP-1': 'connected', 'HDMI-A-1': 'disconnected' },
    },
  ],
  expected: {
    gpus: {
      '0000:c1:00.0': amdAnswer('c1', '1002:15bf', 'card1'),
      '0000:08:00.0': {
        key: `${framework}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'ready',
        driver: 'amdgpu',
        enclosure: framework,
        port: 'domain0/port2',
        speed: 'thunderbolt-3',
        power: 'active',
        displays: ['card0/DP-1'],
        link: cableLink(
          ['0000:04:00.0 virtual', '0000:06:00.0 real 8 x4', '0000:08:00.0 internal 16 x16'],
          'thunderbolt-3',
        ),
      },
    },
    enclosures: { [framework]: { port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-3' } },
    findings: [],
  },
}

const razer = uuid(11)

export const flowZ13: Machine = {
  name: 'rog-flow-z13-razer-core-x-v2',
  case: 11,
  origin: 'NVIDIA/open-gpu-kernel-modules issue 979',
  facts: 'partial',
  assumed: 'buses, subsystem ids, names of the router',
  kernel: '6.17.0',
  dmi: { chassis: 31, vendor: 'ASUSTeK COMPUTER INC.', product: 'ROG Flow Z13 GZ302EA' },
  externalFacing: ['00:01.1', '00:01.2'],
  usb4Links: [
    ['00:01.1', 'c6:00.5'],
    ['00:01.2', 'c6:00.6'],
  ],
  pci: [
    bridge(
      '00:01.1',
      '1022:150a',
      [
        bridge(
          '61:00.0',
          '8086:5786',
          [
            bridge(
              '62:00.0',
              '8086:5786',
              [
                {
                  at: '63:00.0',
                  id: '10de:2c05',
                  subsystem: '1043:8a00',
                  class: '030000',
                  driver: 'nvidia',
                  link: link(16, 4, 32, 16),
                },
                audio('63:00.1', '10de:22e9'),
              ],
              { link: link(16, 4, 16, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: amdFiction },
    ),
    bridge('00:01.2', '1022:150a', [], { link: amdFiction }),
    ...amdProcessor('c4', '1002:1586', 'c6', ['1022:158d', '1022:158e']),
  ],
  thunderbolt: [
    usb4Domain(0, 'c6:00.5', [
      box('0-2', 11, {
        vendorName: 'Razer',
        deviceName: 'Core X V2',
        usb4: { version: '2.0', type: 'hub' },
      }),
    ]),
    usb4Domain(1, 'c6:00.6'),
  ],
  cards: [amdCard('c4')],
  expected: {
    gpus: {
      '0000:c4:00.0': amdAnswer('c4', '1002:1586'),
      '0000:63:00.0': {
        key: `${razer}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: razer,
        port: 'domain0/port2',
        speed: 'thunderbolt-4',
        power: 'active',
        link: cableLink(['0000:61:00.0 virtual', '0000:63:00.0 real 16 x4']),
      },
    },
    enclosures: { [razer]: { name: 'Core X V2', port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: [],
  },
}

const gpd = uuid(12)

/** The bridge's configuration space is all ones: nothing behind it can be reached. */
export const flowZ13Dead: Machine = {
  ...flowZ13,
  name: 'rog-flow-z13-gpd-box-unreachable',
  case: 12,
  origin: 'CachyOS/linux-cachyos issue 1021',
  facts: 'synthetic',
  assumed: 'the tree; that the bridge reads all ones is what was reported',
  pci: [
    bridge(
      '00:01.1',
      '1022:150a',
      [
        bridge(
          '61:00.0',
          '8086:5786',
          [
            bridge(
              '62:00.0',
              '8086:5786',
              [
                {
                  at: '63:00.0',
                  id: '10de:2684',
                  subsystem: '1043:889d',
                  class: '030000',
                  driver: 'nvidia',
                  sleep: 'D3cold',
                },
                audio('63:00.1', '10de:22ba'),
              ],
              { link: { speed: 'unreadable', width: 'unreadable', maxSpeed: '64.0 GT/s PCIe', maxWidth: '255' } },
            ),
          ],
          { link: { speed: 'unreadable', width: 'unreadable', maxSpeed: '64.0 GT/s PCIe', maxWidth: '255' } },
        ),
      ],
      { link: amdFiction },
    ),
    bridge('00:01.2', '1022:150a', [], { link: amdFiction }),
    ...amdProcessor('c4', '1002:1586', 'c6', ['1022:158d', '1022:158e']),
  ],
  thunderbolt: [
    usb4Domain(0, 'c6:00.5', [
      box('0-2', 12, { vendorName: 'GPD', deviceName: 'TBT5-EGPU', usb4: { version: '2.0', type: 'hub' } }),
    ]),
    usb4Domain(1, 'c6:00.6'),
  ],
  expected: {
    gpus: {
      '0000:c4:00.0': amdAnswer('c4', '1002:1586'),
      '0000:63:00.0': {
        key: `${gpd}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'lost',
        driver: 'nvidia',
        enclosure: gpd,
        port: 'domain0/port2',
        speed: 'thunderbolt-4',
        power: 'disconnected',
        link: { sticker: 'thunderbolt-4', trained: '2x20/2x20', hops: ['0000:61:00.0 virtual', '0000:63:00.0 real'] },
      },
    },
    enclosures: { [gpd]: { name: 'TBT5-EGPU', port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: ['gpu-lost error'],
  },
}

const adtLink = uuid(14)

export const framework16: Machine = {
  name: 'framework-16-ut4g-5070ti',
  case: 14,
  origin: 'NVIDIA/open-gpu-kernel-modules issue 894',
  facts: 'partial',
  assumed: 'buses but the GPU, subsystem ids; the internal card slot is empty',
  kernel: '6.14.0',
  dmi: { chassis: 10, vendor: 'Framework', product: 'Laptop 16 (AMD Ryzen 7040 Series)' },
  externalFacing: ['00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', 'c4:00.5'],
    ['00:04.1', 'c4:00.6'],
  ],
  pci: [
    bridge(
      '00:03.1',
      '1022:14ef',
      [
        bridge(
          '07:00.0',
          '1b21:2461',
          [
            bridge(
              '08:00.0',
              '1b21:2461',
              [
                {
                  at: '09:00.0',
                  id: '10de:2c05',
                  subsystem: '19da:1767',
                  class: '030000',
                  driver: 'nvidia',
                  link: link(16, 4, 32, 16),
                },
                audio('09:00.1', '10de:22e9'),
              ],
              { link: link(16, 4, 16, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: amdFiction },
    ),
    bridge('00:04.1', '1022:14ef', [], { link: amdFiction }),
    ...amdProcessor('c1', '1002:15bf', 'c4', ['1022:1668', '1022:1669']),
  ],
  thunderbolt: [
    usb4Domain(0, 'c4:00.5', [
      box('0-2', 14, { vendor: '0xb8', device: '0x2464', usb4: { version: '1.0', type: 'device' } }),
    ]),
    usb4Domain(1, 'c4:00.6'),
  ],
  cards: [amdCard('c1')],
  expected: {
    gpus: {
      '0000:c1:00.0': amdAnswer('c1', '1002:15bf'),
      '0000:09:00.0': {
        key: `${adtLink}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: adtLink,
        port: 'domain0/port2',
        speed: 'thunderbolt-4',
        power: 'active',
        link: cableLink(['0000:07:00.0 virtual', '0000:09:00.0 real 16 x4']),
      },
    },
    enclosures: { [adtLink]: { port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: [],
  },
}

const ag02 = uuid(15)

/** The second machine of the report, which the GPU's driver did not take for external either. */
export const strixPointAg02: Machine = {
  name: 'strix-point-aoostar-ag02-rtx3070',
  origin:
    'NVIDIA/open-gpu-kernel-modules issue 894, comment; ids of the processor: lspci of a Ryzen AI 9 HX 370, Gentoo wiki',
  facts: 'partial',
  assumed: 'buses, subsystem ids, that the second port is empty',
  kernel: '6.14.0',
  externalFacing: ['00:01.1', '00:01.2'],
  usb4Links: [
    ['00:01.1', '67:00.5'],
    ['00:01.2', '67:00.6'],
  ],
  pci: [
    bridge(
      '00:01.1',
      '1022:150a',
      [
        bridge(
          '01:00.0',
          '1b21:2463',
          [
            bridge(
              '02:00.0',
              '1b21:2463',
              [
                {
                  at: '03:00.0',
                  id: '10de:2484',
                  subsystem: '1458:404c',
                  class: '030000',
                  driver: 'nvidia',
                  link: link(16, 4, 16, 16),
                },
                audio('03:00.1', '10de:228b'),
              ],
              { link: link(16, 4, 16, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: amdFiction },
    ),
    bridge('00:01.2', '1022:150a', [], { link: amdFiction }),
    ...amdProcessor('65', '1002:150e', '67', ['1022:151c', '1022:151d'], '038000'),
  ],
  thunderbolt: [
    usb4Domain(0, '67:00.5', [
      box('0-2', 15, { vendor: '0xb8', device: '0x2463', usb4: { version: '1.0', type: 'device' } }),
    ]),
    usb4Domain(1, '67:00.6'),
  ],
  cards: [amdCard('65')],
  expected: {
    gpus: {
      '0000:65:00.0': amdAnswer('65', '1002:150e'),
      '0000:03:00.0': {
        key: `${ag02}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: ag02,
        port: 'domain0/port2',
        speed: 'thunderbolt-4',
        power: 'active',
        link: cableLink(['0000:01:00.0 virtual', '0000:03:00.0 real 16 x4']),
      },
    },
    enclosures: { [ag02]: { port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: [],
  },
}

/** Kernels before 5.16 and other architectures mark nothing, and no device links: the port's id is what is left. */
export const framework16Bare: Machine = {
  ...framework16,
  name: 'framework-16-no-acpi-hints',
  facts: 'synthetic',
  removableRule: 'none',
  usb4Links: [],
  kernel: '5.15.0',
}

const legion = uuid(26)

/** The report was "2.5 GT/s"; that is what every tunnel port says. */
export const legionGo: Machine = {
  ...framework16,
  name: 'legion-go-ut3g-2-5-gts-report',
  case: 26,
  origin: 'ublue-os/bazzite issue 2174; NVIDIA/open-gpu-kernel-modules issue 894',
  facts: 'synthetic',
  dmi: { chassis: 31, vendor: 'LENOVO', product: '83E1' },
  pci: framework16.pci.map((node) =>
    node.at !== '00:03.1'
      ? node
      : bridge(
          '00:03.1',
          '1022:14ef',
          [
            bridge(
              '07:00.0',
              '1b21:2461',
              [
                bridge(
                  '08:00.0',
                  '1b21:2461',
                  [
                    {
                      at: '09:00.0',
                      id: '10de:2489',
                      subsystem: '1458:4077',
                      class: '030000',
                      driver: 'nvidia',
                      link: link(2.5, 4, 16, 16),
                    },
                  ],
                  { link: link(2.5, 4, 16, 4) },
                ),
              ],
              { link: fiction },
            ),
          ],
          { link: amdFiction },
        ),
  ),
  thunderbolt: [usb4Domain(0, 'c4:00.5', [box('0-2', 26)]), usb4Domain(1, 'c4:00.6')],
  expected: {
    gpus: {
      '0000:c1:00.0': amdAnswer('c1', '1002:15bf'),
      '0000:09:00.0': {
        key: `${legion}/0`,
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: legion,
        port: 'domain0/port2',
        speed: 'thunderbolt-4',
        power: 'active',
        link: cableLink(['0000:07:00.0 virtual', '0000:09:00.0 real 2.5 x4']),
      },
    },
    enclosures: { [legion]: { port: 'domain0/port2', authorized: true, sticker: 'thunderbolt-4' } },
    findings: [],
  },
}

const xt = uuid(28)

/** The processor's GPU is of class 0380 here, which some tools miss. */
export const class0380: Machine = {
  name: 'amd-igpu-class-0380-rx7600m-xt',
  case: 28,
  origin: 'ewagner12/all-ways-egpu pull request 48',
  facts: 'partial',
  assumed: 'the tunnel between the port and 65:00.0, ids but the GPU names',
  kernel: '6.8.0',
  externalFacing: ['00:03.1', '00:04.1'],
  usb4Links: [
    ['00:03.1', 'c6:00.5'],
    ['00:04.1', 'c6:00.6'],
  ],
  pci: [
    bridge('00:03.1', '1022:14ef', [], { link: noLink }),
    bridge(
      '00:04.1',
      '1022:14ef',
      [
        bridge(
          '61:00.0',
          '8086:15ef',
          [
            bridge(
              '62:01.0',
              '8086:15ef',
              [
                bridge(
                  '63:00.0',
                  '1002:1478',
                  [
                    bridge(
                      '64:00.0',
                      '1002:1479',
                      [
                        {
                          at: '65:00.0',
                          id: '1002:7480',
                          subsystem: '1da2:e448',
                          class: '030000',
                          driver: 'amdgpu',
                          link: link(16, 8, 16, 8),
                        },
                      ],
                      { link: link(16, 8, 16, 8) },
                    ),
                  ],
                  { link: link(8, 4, 16, 8) },
                ),
              ],
              { link: link(8, 4, 8, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: amdFiction },
    ),
    ...amdProcessor('c5', '1002:15bf', 'c6', ['1022:1668', '1022:1669'], '038000'),
  ],
  thunderbolt: [usb4Domain(0, 'c6:00.5'), usb4Domain(1, 'c6:00.6', [box('1-2', 28, { generation: '3' })])],
  cards: [
    amdCard('c5', 'card1'),
    { name: 'card0', pci: '65:00.0', render: 'renderD129', connectors: { 'DP-1': 'disconnected' } },
  ],
  expected: {
    gpus: {
      '0000:c5:00.0': amdAnswer('c5', '1002:15bf', 'card1'),
      '0000:65:00.0': {
        key: `${xt}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'ready',
        driver: 'amdgpu',
        enclosure: xt,
        port: 'domain1/port2',
        speed: 'thunderbolt-3',
        power: 'active',
        displays: [],
        link: cableLink(
          ['0000:61:00.0 virtual', '0000:63:00.0 real 8 x4', '0000:65:00.0 internal 16 x8'],
          'thunderbolt-3',
        ),
      },
    },
    enclosures: { [xt]: { port: 'domain1/port2', authorized: true, sticker: 'thunderbolt-3' } },
    findings: [],
  },
}
