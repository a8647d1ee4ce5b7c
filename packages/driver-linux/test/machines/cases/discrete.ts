import type { Machine } from '../machine.ts'
import {
  audio,
  box,
  bridge,
  fiction,
  GiB,
  intelAnswer,
  intelCard,
  intelGraphics,
  link,
  MiB,
  other,
  thunderbolt3Domain,
  uuid,
} from '../parts.ts'

const t480Box = uuid(8)

/** The host's own switch comes first and is removable by the rule of its kernel; the box starts below port 01.0. */
export const thinkpadT480: Machine = {
  name: 'thinkpad-t480-gtx1060-vfio',
  case: 8,
  origin: 'schplorg/vfio-t480 README',
  facts: 'partial',
  assumed: 'the root port, the box behind the Alpine Ridge device switch',
  kernel: '5.19.0',
  dmi: { chassis: 10, vendor: 'LENOVO', product: '20L6' },
  externalFacing: ['00:1d.0'],
  removableRule: '5.16',
  pci: [
    intelGraphics('8086:5917'),
    bridge(
      '00:1d.0',
      '8086:9d18',
      [
        bridge(
          '04:00.0',
          '8086:15c0',
          [
            bridge('05:00.0', '8086:15c0', [other('06:00.0', '8086:15bf', '088000', 'thunderbolt')]),
            bridge('05:01.0', '8086:15c0', [
              bridge(
                '07:00.0',
                '8086:1578',
                [
                  bridge(
                    '08:01.0',
                    '8086:1578',
                    [
                      {
                        at: '09:00.0',
                        id: '10de:1c02',
                        subsystem: '10de:11c2',
                        class: '030000',
                        driver: 'vfio-pci',
                        link: link(8, 4, 8, 16),
                      },
                      { ...audio('09:00.1', '10de:10f1'), driver: 'vfio-pci' },
                    ],
                    { link: link(8, 4, 8, 4) },
                  ),
                  bridge('08:04.0', '8086:1578', [other('0a:00.0', '8086:15b6', '0c0330', 'xhci_hcd')]),
                ],
                { link: fiction },
              ),
            ]),
            bridge('05:02.0', '8086:15c0', [other('3c:00.0', '8086:15c1', '0c0330', 'xhci_hcd')]),
          ],
          { link: link(8, 2, 8, 4) },
        ),
      ],
      { link: link(8, 2, 8, 2) },
    ),
  ],
  thunderbolt: [
    thunderbolt3Domain(0, '06:00.0', [box('0-1', 8, { generation: '3', deviceName: 'eGFX', vendor: '0x8' })], {
      iommuDmaProtection: '0',
    }),
  ],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:5917'),
      '0000:09:00.0': {
        key: `${t480Box}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'present',
        driver: 'vfio-pci',
        enclosure: t480Box,
        port: 'domain0/port1',
        speed: 'thunderbolt-3',
        power: 'active',
        link: {
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['0000:04:00.0 real 8 x2', '0000:07:00.0 virtual', '0000:09:00.0 real 8 x4'],
          bottleneck: '0000:04:00.0',
          effective: 1.66,
        },
      },
    },
    enclosures: { [t480Box]: { name: 'eGFX', port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' } },
    findings: ['vfio-bound info', 'narrow-host-uplink info', 'no-dma-protection info'],
  },
}

const sonnet = uuid(9)

/** coreboot says nothing to ACPI, so nothing is removable; and there was no room for the card's memory window. */
export const darp6: Machine = {
  name: 'darp6-coreboot-sonnet-550-rtx2070',
  case: 9,
  origin: 'system76/firmware-open issue 66',
  facts: 'partial',
  assumed: 'root port, Titan Ridge host switch ids, buses below the box',
  kernel: '5.4.0',
  removableRule: 'none',
  dmi: { chassis: 9, vendor: 'System76', product: 'darp6' },
  pci: [
    intelGraphics('8086:9b41'),
    bridge(
      '00:1c.0',
      '8086:02b8',
      [
        bridge(
          '01:00.0',
          '8086:15ea',
          [
            bridge('02:00.0', '8086:15ea', [other('03:00.0', '8086:15eb', '088000', 'thunderbolt')]),
            bridge('02:01.0', '8086:15ea', [
              bridge(
                '04:00.0',
                '8086:1578',
                [
                  bridge(
                    '05:01.0',
                    '8086:1578',
                    [
                      {
                        at: '06:00.0',
                        id: '10de:1f02',
                        subsystem: '10de:12ad',
                        class: '030000',
                        link: link(8, 4, 8, 16),
                        bars: [
                          { size: 16 * MiB },
                          { size: 256 * MiB, prefetchable: true, unassigned: true },
                          { size: 0 },
                          { size: 32 * MiB, prefetchable: true, unassigned: true },
                        ],
                      },
                      audio('06:00.1', '10de:10f9'),
                    ],
                    { link: link(8, 4, 8, 4) },
                  ),
                ],
                { link: fiction },
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
    thunderbolt3Domain(0, '03:00.0', [
      box('0-1', 9, {
        generation: '3',
        vendor: '0x8',
        device: '0x38',
        vendorName: 'Sonnet Technologies, Inc',
        deviceName: 'eGFX Breakaway Box 550',
      }),
    ]),
  ],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:9b41'),
      '0000:06:00.0': {
        key: `${sonnet}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'present',
        enclosure: sonnet,
        port: 'domain0/port1',
        speed: 'thunderbolt-3',
        power: 'active',
        link: {
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['0000:01:00.0 real 8 x4', '0000:04:00.0 virtual', '0000:06:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 2.75,
        },
      },
    },
    enclosures: {
      [sonnet]: {
        name: 'eGFX Breakaway Box 550',
        port: 'domain0/port1',
        authorized: true,
        sticker: 'thunderbolt-3',
      },
    },
    findings: ['bar-allocation-failed error', 'no-driver warning'],
  },
}

const t2Box = uuid(25)

/** Apple's firmware gives the kernel no hints either; the controller is found by its shape. */
export const t2Mac: Machine = {
  name: 't2-mac-alpine-ridge-rtx3060',
  case: 25,
  origin: 't2linux issue 189',
  facts: 'partial',
  assumed: 'everything but 41:01.0, the GPU and its empty memory window',
  kernel: '6.4.0',
  removableRule: 'none',
  dmi: { chassis: 9, vendor: 'Apple Inc.', product: 'MacBookPro15,1' },
  pci: [
    intelGraphics('8086:3e9b'),
    bridge(
      '00:1b.0',
      '8086:a340',
      [
        bridge(
          '3f:00.0',
          '8086:15ea',
          [
            bridge('40:00.0', '8086:15ea', [other('3e:00.0', '8086:15eb', '088000', 'thunderbolt')]),
            bridge('40:01.0', '8086:15ea', [
              bridge(
                '41:00.0',
                '8086:15d3',
                [
                  bridge(
                    '42:01.0',
                    '8086:15d3',
                    [
                      {
                        at: '43:00.0',
                        id: '10de:2504',
                        subsystem: '10de:1537',
                        class: '030000',
                        link: link(8, 4, 16, 16),
                        bars: [{ size: 16 * MiB }, { size: 16 * GiB, prefetchable: true, unassigned: true }],
                      },
                      audio('43:00.1', '10de:228e'),
                    ],
                    { link: link(8, 4, 8, 4) },
                  ),
                ],
                { link: fiction },
              ),
            ]),
          ],
          { link: link(8, 4, 8, 4) },
        ),
      ],
      { link: link(8, 4, 8, 4) },
    ),
  ],
  thunderbolt: [thunderbolt3Domain(0, '3e:00.0', [box('0-1', 25, { generation: '3' })], { iommuDmaProtection: '0' })],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:3e9b'),
      '0000:43:00.0': {
        key: `${t2Box}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'present',
        enclosure: t2Box,
        port: 'domain0/port1',
        speed: 'thunderbolt-3',
        power: 'active',
        link: {
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['0000:3f:00.0 real 8 x4', '0000:41:00.0 virtual', '0000:43:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 2.75,
        },
      },
    },
    enclosures: { [t2Box]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' } },
    findings: ['bar-allocation-failed error', 'no-driver warning', 'no-dma-protection info'],
  },
}

const xps = uuid(20)

export const xpsAorus1080: Machine = {
  name: 'xps-aorus-gtx1080-box',
  case: 20,
  origin: 'hertg/egpu-switcher issue 3',
  facts: 'partial',
  assumed: 'everything between the root port and 3c:00.0',
  kernel: '5.10.0',
  removableRule: 'none',
  dmi: { chassis: 10, vendor: 'Dell Inc.', product: 'XPS 13 9370' },
  pci: [
    intelGraphics('8086:3ea0'),
    bridge(
      '00:1c.0',
      '8086:9d10',
      [
        bridge(
          '01:00.0',
          '8086:15d3',
          [
            bridge('02:00.0', '8086:15d3', [other('03:00.0', '8086:15d2', '088000', 'thunderbolt')]),
            bridge('02:01.0', '8086:15d3', [
              bridge(
                '3a:00.0',
                '8086:1578',
                [
                  bridge(
                    '3b:01.0',
                    '8086:1578',
                    [
                      {
                        at: '3c:00.0',
                        id: '10de:1b80',
                        subsystem: '1458:3702',
                        class: '030000',
                        driver: 'nvidia',
                        link: link(8, 4, 8, 16),
                      },
                      audio('3c:00.1', '10de:10f0'),
                    ],
                    { link: link(8, 4, 8, 4) },
                  ),
                  bridge('3b:04.0', '8086:1578', [other('3d:00.0', '8086:15b6', '0c0330', 'xhci_hcd')]),
                ],
                { link: fiction },
              ),
            ]),
          ],
          { link: link(8, 4, 8, 4) },
        ),
      ],
      { link: link(8, 4, 8, 4) },
    ),
  ],
  thunderbolt: [thunderbolt3Domain(0, '03:00.0', [box('0-1', 20, { generation: '3' })])],
  cards: [intelCard],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:3ea0'),
      '0000:3c:00.0': {
        key: `${xps}/1`,
        verdict: 'external',
        confidence: 'high',
        transport: 'thunderbolt',
        stage: 'ready',
        driver: 'nvidia',
        enclosure: xps,
        port: 'domain0/port1',
        speed: 'thunderbolt-3',
        power: 'active',
        link: {
          sticker: 'thunderbolt-3',
          trained: '2x20/2x20',
          hops: ['0000:01:00.0 real 8 x4', '0000:3a:00.0 virtual', '0000:3c:00.0 real 8 x4'],
          bottleneck: 'cable',
          effective: 2.75,
        },
      },
    },
    enclosures: { [xps]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' } },
    findings: [],
  },
}
