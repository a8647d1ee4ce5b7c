import type { ExpectedGpu, Machine, PciNode } from '../machine.ts'
import type { Entry } from '../tree.ts'
import {
  box,
  bridge,
  cableLink,
  fiction,
  intelAnswer,
  intelCard,
  intelGraphics,
  link,
  other,
  serialOf,
  usb4Domain,
  uuid,
} from '../parts.ts'

const host: Pick<Machine, 'kernel' | 'externalFacing' | 'usb4Links' | 'cards' | 'facts'> = {
  facts: 'synthetic',
  kernel: '6.19.0',
  externalFacing: ['00:07.0'],
  usb4Links: [['00:07.0', '00:0d.2']],
  cards: [intelCard],
}

const gpu = (at: string, id: string, subsystem: string): PciNode => ({
  at,
  id,
  subsystem,
  class: '030000',
  driver: 'nvidia',
  link: link(16, 4, 32, 16),
})

const answer = (n: number, port: string, hops: readonly string[]): ExpectedGpu => ({
  key: `${uuid(n)}/0`,
  verdict: 'external',
  confidence: 'high',
  transport: 'usb4',
  stage: 'ready',
  driver: 'nvidia',
  enclosure: uuid(n),
  port,
  speed: 'thunderbolt-4',
  power: 'active',
  link: cableLink(hops),
})

/** The second box's switch hangs below a downstream port of the first one's. */
export const daisyChain: Machine = {
  ...host,
  name: 'two-egpus-daisy-chained',
  origin: 'recipe: routers 0-1 and 0-301 on one root port',
  pci: [
    intelGraphics('8086:7d55'),
    bridge(
      '00:07.0',
      '8086:7ec4',
      [
        bridge(
          '02:00.0',
          '8086:5786',
          [
            bridge('03:00.0', '8086:5786', [gpu('04:00.0', '10de:2b85', '1458:41b6')], { link: link(16, 4, 16, 4) }),
            bridge(
              '03:01.0',
              '8086:5786',
              [
                bridge(
                  '05:00.0',
                  '8086:0b26',
                  [
                    bridge('06:00.0', '8086:0b26', [gpu('07:00.0', '10de:2684', '1043:889d')], {
                      link: link(16, 4, 16, 4),
                    }),
                  ],
                  { link: fiction },
                ),
              ],
              { link: fiction },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: fiction },
    ),
    other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
  ],
  thunderbolt: [usb4Domain(0, '00:0d.2', [box('0-1', 60), box('0-301', 61)])],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:7d55'),
      '0000:04:00.0': answer(60, 'domain0/port1', ['0000:02:00.0 virtual', '0000:04:00.0 real 16 x4']),
      '0000:07:00.0': answer(61, 'domain0/port1/port3', [
        '0000:02:00.0 virtual',
        '0000:05:00.0 virtual',
        '0000:07:00.0 real 16 x4',
      ]),
    },
    enclosures: {
      [uuid(60)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' },
      [uuid(61)]: { port: 'domain0/port1/port3', parent: uuid(60), authorized: true, sticker: 'thunderbolt-4' },
    },
    findings: [],
  },
}

function hub(serial: Readonly<Record<string, Entry>>): readonly PciNode[] {
  return [
    intelGraphics('8086:7d55'),
    bridge(
      '00:07.0',
      '8086:7ec4',
      [
        bridge(
          '02:00.0',
          '8086:0b26',
          [
            bridge('03:00.0', '8086:0b26', [other('04:00.0', '8086:0b27', '0c0330', 'xhci_hcd')]),
            bridge(
              '03:01.0',
              '8086:0b26',
              [
                bridge(
                  '05:00.0',
                  '8086:15ef',
                  [
                    bridge('06:01.0', '8086:15ef', [gpu('07:00.0', '10de:2684', '1043:889d')], {
                      link: link(8, 4, 8, 4),
                    }),
                  ],
                  { link: fiction, attributes: serial },
                ),
              ],
              { link: fiction },
            ),
            bridge(
              '03:02.0',
              '8086:0b26',
              [
                bridge('2c:00.0', '8086:15c0', [
                  bridge('2d:01.0', '8086:15c0', [other('2e:00.0', '144d:a808', '010802', 'nvme')]),
                ]),
              ],
              { link: fiction },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: fiction },
    ),
    other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
  ]
}

const hubRouters = [
  box('0-1', 70, { usb4: { version: '1.0', type: 'hub' } }),
  box('0-101', 71, { generation: '3' }),
  box('0-301', 72, { generation: '3', vendorName: 'Samsung', deviceName: 'X5' }),
]

const hubEnclosures = {
  [uuid(70)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-4' },
  [uuid(71)]: { port: 'domain0/port1/port1', parent: uuid(70), authorized: true, sticker: 'thunderbolt-3' },
  [uuid(72)]: { name: 'X5', port: 'domain0/port1/port3', parent: uuid(70), authorized: true, sticker: 'thunderbolt-3' },
} as const

/** Nothing tells which of the two boxes behind the hub has the GPU: say between which. */
export const hubAmbiguous: Machine = {
  ...host,
  name: 'hub-with-egpu-and-ssd',
  origin: 'recipe: hub 0-1 with 0-101 and 0-301 behind it, serial numbers not readable',
  pci: hub({}),
  thunderbolt: [usb4Domain(0, '00:0d.2', hubRouters)],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:7d55'),
      '0000:07:00.0': {
        key: '10de:2684:1043:889d',
        verdict: 'external',
        confidence: 'high',
        transport: 'usb4',
        stage: 'ready',
        driver: 'nvidia',
        power: 'active',
        link: { hops: ['0000:02:00.0 virtual', '0000:05:00.0 virtual', '0000:07:00.0 real 16 x4'] },
      },
    },
    enclosures: hubEnclosures,
    findings: ['enclosure-ambiguous info'],
  },
}

/** The same for root on a kernel with `serial_number`: the box's switch has its router's UID. */
export const hubWithSerial: Machine = {
  ...hubAmbiguous,
  name: 'hub-with-egpu-and-ssd-as-root',
  origin: 'recipe: the same, serial numbers readable',
  pci: hub({ serial_number: `${serialOf(71)}\n` }),
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:7d55'),
      '0000:07:00.0': {
        ...answer(71, 'domain0/port1/port1', []),
        key: `${uuid(71)}/1`,
        transport: 'thunderbolt',
        speed: 'thunderbolt-3',
        link: cableLink(['0000:02:00.0 virtual', '0000:05:00.0 virtual', '0000:07:00.0 real 16 x4'], 'thunderbolt-3'),
      },
    },
    enclosures: hubEnclosures,
    findings: [],
  },
}

/** A box with several slots has a switch of its own behind Thunderbolt's: one box, two slots. */
export const twoSlots: Machine = {
  ...host,
  name: 'box-with-two-gpus-behind-its-own-switch',
  origin: 'recipe: a PLX switch between the Thunderbolt switch and the slots',
  pci: [
    intelGraphics('8086:7d55'),
    bridge(
      '00:07.0',
      '8086:7ec4',
      [
        bridge(
          '02:00.0',
          '8086:15ef',
          [
            bridge(
              '03:01.0',
              '8086:15ef',
              [
                bridge(
                  '04:00.0',
                  '10b5:8724',
                  [
                    bridge(
                      '05:01.0',
                      '10b5:8724',
                      [{ ...gpu('06:00.0', '10de:2684', '1043:889d'), link: link(8, 8, 32, 16) }],
                      {
                        link: link(8, 8, 8, 8),
                      },
                    ),
                    bridge(
                      '05:02.0',
                      '10b5:8724',
                      [{ ...gpu('07:00.0', '10de:2684', '1043:889d'), link: link(8, 8, 32, 16) }],
                      {
                        link: link(8, 8, 8, 8),
                      },
                    ),
                  ],
                  { link: link(8, 4, 8, 8) },
                ),
              ],
              { link: link(8, 4, 8, 4) },
            ),
          ],
          { link: fiction },
        ),
      ],
      { link: fiction },
    ),
    other('00:0d.2', '8086:7ec2', '0c0340', 'thunderbolt'),
  ],
  thunderbolt: [usb4Domain(0, '00:0d.2', [box('0-1', 62, { generation: '3' })])],
  expected: {
    gpus: {
      '0000:00:02.0': intelAnswer('8086:7d55'),
      '0000:06:00.0': inSlot(0x101, '06'),
      '0000:07:00.0': inSlot(0x102, '07'),
    },
    enclosures: { [uuid(62)]: { port: 'domain0/port1', authorized: true, sticker: 'thunderbolt-3' } },
    findings: [],
  },
}

function inSlot(slot: number, bus: string): ExpectedGpu {
  return {
    ...answer(62, 'domain0/port1', []),
    key: `${uuid(62)}/${slot}`,
    transport: 'thunderbolt',
    speed: 'thunderbolt-3',
    link: cableLink(['0000:02:00.0 virtual', '0000:04:00.0 real 8 x4', `0000:${bus}:00.0 real 8 x8`], 'thunderbolt-3'),
  }
}
