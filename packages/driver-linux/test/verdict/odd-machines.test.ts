import { describe, expect, it } from 'vitest'
import type { DriverSnapshot } from '@egpu/core/driver'
import { observe } from '../../src/observe.ts'
import { readTopology } from '../../src/topology/read-topology.ts'
import { treeOf } from '../machines/build.ts'
import type { Machine, PciNode } from '../machines/machine.ts'
import { amdProcessor, box, bridge, fiction, intelGraphics, link, other, usb4Domain, uuid } from '../machines/parts.ts'
import { memorySysfs } from '../machines/tree.ts'
import type { Entry } from '../machines/tree.ts'

/** Machines that nobody wrote down, each with a trap. */

async function look(parts: Partial<Machine>): Promise<DriverSnapshot> {
  const machine: Machine = {
    name: 'odd',
    origin: 'invented',
    facts: 'synthetic',
    pci: [],
    ...parts,
    expected: { gpus: {}, enclosures: {}, findings: [] },
  }
  return observe(await readTopology(memorySysfs(treeOf(machine))))
}

/** `internal 0.85` or `external 0.95 usb4` by address. */
async function verdicts(parts: Partial<Machine>): Promise<Readonly<Record<string, string>>> {
  const { devices } = await look(parts)
  return Object.fromEntries(
    devices.map(({ identity, verdict }) => [
      identity.pciAddress,
      [verdict?.conclusion, verdict?.confidence, verdict?.transport].filter((part) => part !== undefined).join(' '),
    ]),
  )
}

function gpu(at: string, id: string, subsystem: string, more: Partial<PciNode> = {}): PciNode {
  return { at, id, subsystem, class: '030000', driver: 'nvidia', link: link(16, 16, 16, 16), ...more }
}

/** A box on buses `bus`0 to `bus`2. */
function boxWith(bus: number, card: PciNode, chip: string = '8086:5786'): PciNode {
  const slot = bridge(`${bus}1:00.0`, chip, [{ ...card, at: `${bus}2:00.0` }], { link: link(16, 4, 16, 4) })
  return bridge(`${bus}0:00.0`, chip, [slot, bridge(`${bus}1:01.0`, chip)], { link: fiction })
}

const laptop = { chassis: 10 }
const narrow = { link: link(16, 4, 16, 16) }
const own = { '0000:00:02.0': 'internal 0.96' }

function xgMobile(connected: string, enabled?: string): Record<string, Entry> {
  const attributes = 'class/firmware-attributes/asus-armoury/attributes'
  return {
    [`${attributes}/egpu_connected/current_value`]: connected,
    ...(enabled === undefined ? {} : { [`${attributes}/egpu_enable/current_value`]: enabled }),
  }
}

const cablePort = {
  dmi: laptop,
  externalFacing: ['00:07.0'],
  usb4Links: [['00:07.0', '00:0d.2']],
  thunderbolt: [usb4Domain(0, '00:0d.2', [box('0-1', 5)])],
} as const
const hostInterface = other('00:0d.2', '8086:463e', '0c0340')

describe('a laptop', () => {
  it('with four lanes to a GPU that is soldered to its board has no external one', async () => {
    const host = { ...intelGraphics('8086:9a49'), subsystem: '103c:8895' }
    const pci = [host, bridge('00:06.0', '8086:9a09', [gpu('01:00.0', '10de:25a2', '103c:8895', narrow)])]
    expect(await verdicts({ dmi: laptop, pci })).toEqual({ ...own, '0000:01:00.0': 'internal 0.81' })
  })

  it('by a maker of cards (EVGA SC17, MXM), on a wide link, has no external one', async () => {
    for (const subsystem of ['3842:7000', '1569:7000']) {
      const pci = [intelGraphics('8086:591b'), bridge('00:01.0', '8086:1901', [gpu('01:00.0', '10de:1ba1', subsystem)])]
      expect(await verdicts({ dmi: laptop, pci })).toEqual({ ...own, '0000:01:00.0': 'internal 0.85' })
    }
  })

  it('on an M.2 port behind a volume management device keeps its doubt, and its five-digit domain', async () => {
    const vmd = {
      ...other('00:0e.0', '8086:467f', '010400', 'vmd'),
      below: [bridge('10000:e0:06.0', '8086:464d', [gpu('10000:e1:00.0', '10de:2206', '1458:403b', narrow)])],
    }
    const { devices } = await look({ dmi: laptop, pci: [intelGraphics('8086:a7a0'), vmd] })
    expect(devices[1]).toMatchObject({ key: '10de:2206:1458:403b@0e.0/06.0/00.0', verdict: { conclusion: 'unknown' } })
  })

  it('with one lane to a card does not call that OCuLink', async () => {
    const card = gpu('05:00.0', '10de:1c03', '19da:1438', { link: link(5, 1, 8, 16) })
    const pci = [intelGraphics('8086:0166'), bridge('00:1c.3', '8086:1e16', [card])]
    expect(await verdicts({ dmi: laptop, pci })).toEqual({ ...own, '0000:05:00.0': 'external 0.49 unknown' })
  })

  it('whose firmware marks its own GPU removable does not put it into the dock beside it', async () => {
    const dock = bridge('04:00.0', '8086:0b26', [
      bridge('05:00.0', '8086:0b26', [other('06:00.0', '8086:15f2', '020000')]),
    ])
    const { devices } = await look({
      dmi: laptop,
      removableRule: '5.16',
      externalFacing: ['00:01.1', '00:03.1'],
      usb4Links: [['00:03.1', 'c6:00.5']],
      pci: [
        bridge('00:01.1', '1022:14ee', [gpu('01:00.0', '10de:28e0', '17aa:3b1f')]),
        bridge('00:03.1', '1022:14ef', [dock]),
        ...amdProcessor('c4', '1002:15bf', 'c6', ['1022:1668', '1022:1669']),
      ],
      thunderbolt: [usb4Domain(0, 'c6:00.5', [box('0-2', 9)])],
    })
    expect(devices[0]).toMatchObject({ enclosureId: undefined, verdict: { conclusion: 'external', confidence: 0.7 } })
  })
})

describe('a handheld by a maker of cards', () => {
  it('has nothing that speaks for a cable', async () => {
    const nodes = amdProcessor('c4', '1002:15bf', 'c6', ['1022:1668', '1022:1669'])
    const pci = nodes.map((node) => ({
      ...node,
      below: node.below?.map((one) => ({ ...one, subsystem: '19da:1234' })),
    }))
    const { devices } = await look({ dmi: { chassis: 11 }, pci })
    expect(devices[0]?.verdict?.evidence.filter(({ points }) => points === 'external')).toEqual([])
  })
})

describe('an XG Mobile', () => {
  const discrete = bridge('00:01.0', '8086:460d', [gpu('01:00.0', '10de:249c', '1043:1234')])
  const thunderbolt = bridge('00:07.0', '8086:466e', [boxWith(2, gpu('', '10de:2684', '1043:889d'))])

  it("that may be off is not taken for the laptop's own GPU", async () => {
    const pci = [intelGraphics('8086:46a6'), discrete]
    const files = xgMobile('1\n')
    expect(await verdicts({ dmi: laptop, pci, files })).toEqual({ ...own, '0000:01:00.0': 'internal 0.85' })
  })

  it('is found beside a box on Thunderbolt, and is no evidence for that one', async () => {
    const both = await look({
      ...cablePort,
      pci: [intelGraphics('8086:46a6'), discrete, thunderbolt, hostInterface],
      files: xgMobile('1\n', '1\n'),
    })
    const signals = both.devices.map(({ verdict }) => verdict?.evidence.map(({ signal }) => signal))
    expect(signals[1]).toContain('xg-mobile-connected')
    expect(signals[2]).not.toContain('xg-mobile-connected')
  })
})

describe('a desktop', () => {
  it('with a USB4 controller behind the chipset has one external GPU and one of its own', async () => {
    const controller = bridge('15:00.0', '1b21:2421', [
      bridge('16:00.0', '1b21:2423', [boxWith(7, gpu('', '1002:7550', '1da2:e490'))]),
      bridge('16:02.0', '1b21:2423', [other('78:00.0', '1b21:2425', '0c0340', 'thunderbolt')]),
      bridge('16:03.0', '1b21:2423', [other('79:00.0', '1b21:2426', '0c0330')]),
    ])
    const chipset = bridge('03:00.0', '1022:43f4', [bridge('04:08.0', '1022:43f5', [controller])])
    expect(
      await verdicts({
        dmi: { chassis: 3 },
        pci: [
          bridge('00:01.1', '1022:14db', [gpu('01:00.0', '10de:2b85', '1458:416f')]),
          bridge('00:02.1', '1022:14db', [chipset]),
        ],
        thunderbolt: [usb4Domain(0, '78:00.0', [box('0-2', 6)])],
      }),
    ).toEqual({ '0000:01:00.0': 'internal 0.85', '0000:72:00.0': 'external 0.98 usb4' })
  })

  it('with a controller nobody has heard of is believed by what ACPI links', async () => {
    const controller = bridge('15:00.0', '1b21:3001', [
      bridge('16:00.0', '1b21:3002', [boxWith(7, gpu('', '1002:7550', '1da2:e490'), '1b21:3009')]),
      bridge('16:02.0', '1b21:3002', [other('78:00.0', '1b21:3005', '0c0340', 'thunderbolt')]),
    ])
    const { devices } = await look({
      usb4Links: [['16:00.0', '78:00.0']],
      pci: [bridge('00:02.1', '1022:14db', [controller])],
      thunderbolt: [usb4Domain(0, '78:00.0', [box('0-2', 6)])],
    })
    expect(devices[0]).toMatchObject({ key: `${uuid(6)}/0`, verdict: { conclusion: 'external' } })
    expect(devices[0]?.link?.hops.map(({ kind }) => kind)).toEqual(['real', 'virtual', 'real'])
  })

  it('with a card in a short slot is not as sure as one with a wide slot', async () => {
    const pci = [bridge('00:1c.0', '8086:7ab8', [gpu('01:00.0', '10de:2684', '1043:889d', narrow)])]
    expect(await verdicts({ dmi: { chassis: 3 }, pci })).toEqual({ '0000:01:00.0': 'internal 0.7' })
  })
})

describe('a server', () => {
  it('that shares a GPU by SR-IOV has one GPU', async () => {
    const share = (at: string): PciNode =>
      gpu(at, '10de:2236', '10de:0000', { class: '030200', attributes: { physfn: { to: '../0000:3b:00.0' } } })
    const card = gpu('3b:00.0', '10de:2236', '10de:1482', { class: '030200' })
    const pci = [bridge('3a:00.0', '8086:347a', [card, share('3b:00.4'), share('3b:01.0')])]
    expect(Object.keys(await verdicts({ dmi: { chassis: 23 }, pci }))).toEqual(['0000:3b:00.0'])
  })
})

describe('a virtual machine', () => {
  it('is sure of its own display, and not of a GPU that was passed to it', async () => {
    const display = { at: '00:01.0', id: '1af4:1050', class: '030000', driver: 'virtio-pci' }
    const passed = [
      gpu('00:05.0', '10de:2684', '1043:889d'),
      bridge('00:06.0', '1b36:000c', [gpu('01:00.0', '1002:744c', '1da2:e471')]),
    ]
    expect(await verdicts({ dmi: { chassis: 1, vendor: 'QEMU' }, pci: [display, ...passed] })).toEqual({
      '0000:00:01.0': 'internal 0.95',
      '0000:00:05.0': 'internal 0.5',
      '0000:01:00.0': 'internal 0.5',
    })
  })
})

describe('two identical GPUs', () => {
  it('on root buses or domains of their own have keys that do not depend on each other', async () => {
    const card = (at: string): PciNode => gpu(at, '10de:2684', '1043:889d')
    const keysOf = async (pci: readonly PciNode[]): Promise<readonly string[]> =>
      (await look({ pci })).devices.map(({ key }) => key)
    for (const [port, bus] of [
      ['40:01.1', '41:00.0'],
      ['0001:00:01.1', '0001:01:00.0'],
    ] as const) {
      const one = bridge('00:01.1', '1022:1453', [card('01:00.0')])
      const other = bridge(port, '1022:1453', [card(bus)])
      const both = await keysOf([one, other])
      expect(new Set(both)).toEqual(new Set([...(await keysOf([one])), ...(await keysOf([other]))]))
    }
  })
})

describe('a key', () => {
  it('stays when root reads the serial number, and when the GPU falls asleep', async () => {
    const keyWith = async (more: Partial<PciNode>): Promise<string | undefined> =>
      (await look({ pci: [bridge('00:01.1', '1022:1453', [gpu('01:00.0', '10de:2684', '1043:889d', more)])] }))
        .devices[0]?.key
    const serial = { attributes: { serial_number: '00-11-22-33-44-55-66-77\n' } }
    const plain = await keyWith({})
    expect(await keyWith(serial)).toBe(plain)
    expect(await keyWith({ ...serial, sleep: 'D3cold' })).toBe(plain)
  })
})

describe('a dead GPU', () => {
  it('is seen by configuration space that reads all-ones', async () => {
    const dead = { link: { speed: 'Unknown', width: '63', maxSpeed: '32.0 GT/s PCIe', maxWidth: '63' } }
    const box = boxWith(2, gpu('', '10de:2684', '1043:889d', dead))
    const { devices } = await look({ ...cablePort, pci: [bridge('00:07.0', '8086:466e', [box]), hostInterface] })
    expect(devices[0]?.stage).toBe('lost')
  })

  it('that is built in gets no advice about a cable', async () => {
    const dead = { link: { speed: 'unreadable', width: 'unreadable', maxWidth: '255' } }
    const pci = [bridge('00:01.0', '8086:460d', [gpu('01:00.0', '10de:25a2', '1043:1234', dead)])]
    const { findings } = await look({ dmi: laptop, pci })
    expect(findings.map(({ code }) => code)).toEqual(['gpu-lost'])
    expect(findings[0]?.advice).not.toMatch(/cable|plug/i)
  })
})
