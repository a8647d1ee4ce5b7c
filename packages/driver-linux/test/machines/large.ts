import type { Machine, PciNode } from './machine.ts'
import { boxBelow } from './cases/intel.ts'
import { box, bridge, fiction, other } from './parts.ts'

/**
 * A machine with this many PCI functions, for scaling: for every hundred a cable port with a GPU in a box, a host
 * interface, and plain functions behind a bridge.
 */
export function largeMachine(functions: number): Machine {
  const groups = Array.from({ length: functions / 100 }, (_, index) => group(index))
  return {
    name: `large-${functions}`,
    origin: 'generated',
    facts: 'synthetic',
    pci: groups.flatMap(({ nodes }) => nodes),
    externalFacing: groups.map(({ port }) => port),
    usb4Links: groups.map(({ port, hostInterface }) => [port, hostInterface] as const),
    thunderbolt: groups.map(({ hostInterface }, index) => ({
      index,
      nhi: hostInterface,
      iommuDmaProtection: '1' as const,
      host: { generation: '4', usb4: '1.0' },
      routers: [
        { ...box(`${index}-1`, 1), uuid: `${index.toString(16).padStart(8, '0')}-0000-0000-ffff-ffffffffffff` },
      ],
    })),
    expected: { gpus: {}, enclosures: {}, findings: [] },
  }
}

interface Group {
  readonly port: string
  readonly hostInterface: string
  readonly nodes: readonly PciNode[]
}

/** One PCI domain: port, box switch up and down, GPU, host interface, bridge, and 94 functions. */
function group(index: number): Group {
  const domain = (index + 1).toString(16).padStart(4, '0')
  const port = `${domain}:00:07.0`
  const hostInterface = `${domain}:00:0d.2`
  const inDomain = (node: PciNode): PciNode => ({
    ...node,
    at: `${domain}:${node.at}`,
    ...(node.below === undefined ? {} : { below: node.below.map(inDomain) }),
  })
  const plain = Array.from({ length: 94 }, (_, one) => ({
    ...other(`40:${(one >> 3).toString(16).padStart(2, '0')}.${one & 7}`, '8086:10fb', '020000', 'ixgbe'),
    bare: true,
  }))
  return {
    port,
    hostInterface,
    nodes: [
      bridge(
        '00:07.0',
        '8086:466e',
        [boxBelow(2, '8086:5786', { id: '10de:2489', subsystem: '1043:87f3', driver: 'nvidia' })],
        {
          link: fiction,
        },
      ),
      other('00:0d.2', '8086:463e', '0c0340', 'thunderbolt'),
      bridge('00:1c.0', '8086:7abc', plain),
    ].map(inDomain),
  }
}
