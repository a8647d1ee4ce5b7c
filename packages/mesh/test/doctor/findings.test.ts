import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bridgeCycle } from '../../src/doctor/bridge-cycle.ts'
import { meshFindings, type Symptoms } from '../../src/doctor/findings.ts'
import { linuxHostNetwork } from '../../src/doctor/host-network.ts'
import { emptyInventory, type CableInventory } from '../../src/links/cable-link.ts'
import { linuxInventory } from '../../src/links/linux.ts'
import { folder } from '../helpers/folder.ts'
import { makeSysfs, type RemoteHost, type SysfsHost } from '../helpers/sysfs.ts'

const calm: Symptoms = {
  inventory: emptyInventory,
  network: { defaultRoutes: [], bridges: [] },
  peers: [],
  neighbours: [],
  withoutLinkLocal: [],
  broken: [],
  unheard: [],
  bridgedCables: [],
  copies: [],
  unreadablePeers: undefined,
}
const inventory = (remote: Partial<RemoteHost> = {}, host: Partial<SysfsHost> = {}): CableInventory =>
  linuxInventory(
    makeSysfs(folder(), {
      controllers: [
        {
          uuid: 'own',
          remotes: [
            {
              route: [1],
              uuid: 'far',
              name: 'box',
              receive: [2, 20],
              transmit: [2, 20],
              service: { e2e: true },
              interfaceName: 'thunderbolt0',
              ...remote,
            },
          ],
        },
      ],
      ...host,
    }),
  )
const codes = (symptoms: Partial<Symptoms>): readonly string[] =>
  meshFindings({ ...calm, ...symptoms }).map(({ code }) => code)

describe('the doctor', () => {
  it('says nothing about a healthy cable', () => {
    expect(codes({ inventory: inventory() })).toEqual([])
  })

  it('says why nobody counts as paired', () => {
    const [finding] = meshFindings({ ...calm, inventory: inventory(), unreadablePeers: 'peers.json is no list' })
    expect(finding).toMatchObject({ code: 'peers-unreadable', severity: 'error' })
    expect(finding?.seen).toContain('peers.json is no list')
  })

  it('finds a default route over a cable, also by way of a bridge', () => {
    const cable = inventory()
    expect(codes({ inventory: cable, network: { defaultRoutes: ['eth0'], bridges: [] } })).toEqual([])
    expect(codes({ inventory: cable, network: { defaultRoutes: ['thunderbolt0'], bridges: [] } })).toEqual([
      'default-route-over-thunderbolt',
    ])
    const bridges = [{ name: 'bridge0', members: ['thunderbolt0'] }]
    expect(codes({ inventory: cable, network: { defaultRoutes: ['bridge0'], bridges } })).toEqual([
      'default-route-over-thunderbolt',
    ])
  })

  it('finds two ends with different MTUs', () => {
    const link = { kind: 'thunderbolt', interfaceName: 'thunderbolt0', measured: {} } as const
    const peers = (mtu: number | undefined, remoteMtu: number | undefined) =>
      [{ id: 'p', hostname: 'mac', targets: [], links: [{ ...link, mtu, remoteMtu }] }] as unknown as Symptoms['peers']
    expect(codes({ peers: peers(62_000, 1500) })).toEqual(['mtu-mismatch'])
    expect(codes({ peers: peers(9000, 9000) })).toEqual([])
    expect(codes({ peers: peers(9000, undefined) })).toEqual([])
  })

  it('tells which host lacks the network driver', () => {
    expect(codes({ inventory: inventory({ interfaceName: undefined }, { networkDriver: false }) })).toEqual([
      'thunderbolt-net-missing',
    ])
    expect(codes({ inventory: inventory({ interfaceName: undefined, service: undefined }) })).toEqual([
      'thunderbolt-net-missing-there',
    ])
  })

  it('finds flow control that differs, and not what it cannot know', () => {
    expect(codes({ inventory: inventory({}, { e2e: false }) })).toEqual(['e2e-mismatch'])
    expect(codes({ inventory: inventory({ service: { e2e: false } }) })).toEqual(['e2e-mismatch'])
    expect(codes({ inventory: { ...inventory({}, { e2e: false }), e2e: undefined } })).toEqual([])
  })

  it('finds training to 20 Gb/s where the port can do more', () => {
    expect(codes({ inventory: inventory({ receive: [1, 20], transmit: [1, 20] }) })).toEqual(['trained-at-20-gbps'])
    expect(codes({ inventory: inventory({ receive: [2, 10], transmit: [2, 10] }) })).toEqual(['trained-at-20-gbps'])
    expect(codes({ inventory: inventory({ receive: undefined, transmit: undefined }) })).toEqual([])
  })

  it('finds ports of one host joined by a cable', () => {
    expect(codes({ inventory: { ...emptyInventory, loops: [{ port: 'domain0/port1', uuid: 'own' }] } })).toEqual([
      'own-ports-joined',
    ])
  })

  it('tells a one-way link from a silent one', () => {
    const broken = (how: 'silent' | 'one-way') => [{ interfaceName: 'thunderbolt0', how }] as const
    expect(codes({ inventory: inventory(), broken: broken('one-way') })).toEqual(['one-way-link'])
    expect(codes({ inventory: inventory(), broken: broken('silent') })).toEqual(['silent-link'])
  })

  it('puts what is broken before what is good to know', () => {
    const found = codes({
      neighbours: [{ id: 'x', address: 'a', interfaceName: 'thunderbolt0', port: 1, pairing: false }],
      unheard: ['thunderbolt0'],
      copies: ['two machines'],
    })
    expect(found).toEqual(['identity-copied', 'heartbeats-blocked', 'neighbour-not-paired'])
  })

  it('reads routes and bridges as Linux prints them', () => {
    const [sysfs, proc] = [folder(), folder()]
    makeSysfs(sysfs, { controllers: [], bridges: { br0: ['thunderbolt0', 'thunderbolt1'] } })
    mkdirSync(join(proc, 'net'))
    const header = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n'
    const lines = [
      'thunderbolt0\t00000000\tFE004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0',
      'eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    ]
    writeFileSync(join(proc, 'net/route'), header + lines.join('\n'))
    const zero = '0'.repeat(32)
    writeFileSync(
      join(proc, 'net/ipv6_route'),
      `${zero} 00 ${zero} 00 fe80000000000000 00000400 00000001 00000000 00000003 eth0\n${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo\n`,
    )
    expect(linuxHostNetwork(sysfs, proc)).toEqual({
      defaultRoutes: ['thunderbolt0', 'eth0'],
      bridges: [{ name: 'br0', members: ['thunderbolt0', 'thunderbolt1'] }],
    })
  })
})

describe('a ring of bridges', () => {
  const cable = (id: string, a: string, b: string) => ({ id, hosts: [a, b] as const })

  it('is found from three hosts on, of any size', () => {
    const ring = (size: number) =>
      Array.from({ length: size }, (_, index) => cable(String(index), `h${index}`, `h${(index + 1) % size}`))
    for (const size of [3, 4, 7]) expect(bridgeCycle(ring(size))).toHaveLength(size)
  })

  it('is neither a line, nor a star, nor two cables between the same two hosts', () => {
    expect(bridgeCycle([cable('1', 'a', 'b'), cable('2', 'b', 'c'), cable('3', 'b', 'd')])).toBeUndefined()
    expect(bridgeCycle([cable('1', 'a', 'b'), cable('2', 'a', 'b')])).toBeUndefined()
    expect(bridgeCycle([cable('1', 'a', 'a')])).toBeUndefined()
    expect(bridgeCycle([])).toBeUndefined()
  })

  it('is an error; two bridged cables without a known ring are a warning', () => {
    const bridgedCables = [cable('1', 'a', 'b'), cable('2', 'b', 'c'), cable('3', 'c', 'a')]
    expect(meshFindings({ ...calm, bridgedCables })[0]).toMatchObject({ code: 'bridge-cycle', severity: 'error' })
  })
})
