import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { linkGbps } from '../../src/links/cable-link.ts'
import { linuxInventory } from '../../src/links/linux.ts'
import { folder } from '../helpers/folder.ts'
import { makeSysfs, type RemoteHost, type SysfsHost } from '../helpers/sysfs.ts'

const remote = (changes: Partial<RemoteHost> = {}): RemoteHost => ({
  route: [1],
  uuid: 'remote-uuid',
  name: 'box',
  receive: [2, 20],
  transmit: [2, 20],
  service: { e2e: true },
  interfaceName: 'thunderbolt0',
  ...changes,
})

const read = (host: SysfsHost): ReturnType<typeof linuxInventory> => linuxInventory(makeSysfs(folder(), host))
const one = (changes: Partial<RemoteHost>, host: Partial<SysfsHost> = {}) =>
  read({ controllers: [{ uuid: 'own-uuid', remotes: [remote(changes)] }], ...host }).links[0]

describe('cables on Linux', () => {
  it('are joined to their interface through the device tree: port, both UUIDs, lanes, MTU', () => {
    expect(one({ route: [3], mtu: 9000 })).toEqual({
      key: 'domain0/port3/remote-uuid',
      port: 'domain0/port3',
      localUuid: 'own-uuid',
      remoteUuid: 'remote-uuid',
      remoteName: 'box',
      hubs: 0,
      interfaceName: 'thunderbolt0',
      mtu: 9000,
      sticker: 'thunderbolt-4',
      trained: { receive: { lanes: 2, gbpsPerLane: 20 }, transmit: { lanes: 2, gbpsPerLane: 20 } },
      networkService: { e2e: true },
    })
  })

  it.each([
    ['20 Gb/s on one lane', [1, 20], [1, 20], 20],
    ['10 Gb/s on two lanes', [2, 10], [2, 10], 20],
    ['20 Gb/s on two lanes', [2, 20], [2, 20], 40],
    ['40 Gb/s on two lanes', [2, 40], [2, 40], 80],
    ['120 and 40 Gb/s in asymmetric mode', [3, 40], [1, 40], 40],
  ] as const)('trained to %s carry that', (_what, receive, transmit, gbps) => {
    const link = one({ receive, transmit })
    expect(link === undefined ? undefined : linkGbps(link)).toBe(gbps)
  })

  it('are told by the device tree alone: a renamed one counts, a namesake on a network card does not', () => {
    const { links } = read({
      controllers: [{ uuid: 'own-uuid', remotes: [remote({ interfaceName: 'en05' })] }],
      otherInterfaces: ['thunderbolt0', 'eth0'],
    })
    expect(links.map(({ interfaceName }) => interfaceName)).toEqual(['en05'])
  })

  it('behind a hub are one link with the hub counted', () => {
    expect(one({ route: [3, 5] })).toMatchObject({ port: 'domain0/port3', hubs: 1, interfaceName: 'thunderbolt0' })
  })

  it('without an interface are still there, with what is missing to see', () => {
    expect(one({ interfaceName: undefined })).toMatchObject({ interfaceName: undefined, networkService: { e2e: true } })
    expect(one({ service: undefined })).toMatchObject({ interfaceName: undefined, networkService: undefined })
    expect(read({ controllers: [{ uuid: 'u', remotes: [] }], networkDriver: false }).networkDriver).toBe('missing')
  })

  it('that lead back to this host are loops and no links', () => {
    const inventory = read({
      controllers: [
        { uuid: 'first', remotes: [remote({ uuid: 'second' })] },
        { uuid: 'second', remotes: [remote({ uuid: 'first', interfaceName: 'thunderbolt1' })] },
      ],
    })
    expect(inventory.links).toEqual([])
    expect(inventory.loops).toEqual([
      { port: 'domain0/port1', uuid: 'second' },
      { port: 'domain1/port1', uuid: 'first' },
    ])
  })

  it('of a kernel that does not tell the lanes are unknown, not guessed', () => {
    expect(one({ receive: undefined, transmit: undefined })?.trained).toEqual({
      receive: undefined,
      transmit: undefined,
    })
  })

  it('keep the label of the port apart from what was trained', () => {
    const generation = (value: number, usb4Version?: string) =>
      read({ controllers: [{ uuid: 'u', generation: value, usb4Version, remotes: [remote()] }] }).links[0]?.sticker
    expect([generation(2), generation(3), generation(4, '1.0'), generation(4, '2.0'), generation(7)]).toEqual([
      'thunderbolt-2',
      'thunderbolt-3',
      'thunderbolt-4',
      'thunderbolt-5',
      undefined,
    ])
  })

  it('with broken attributes read as unknown', () => {
    const root = makeSysfs(folder(), { controllers: [{ uuid: 'u', remotes: [remote()] }] })
    const xdomain = join(root, 'bus/thunderbolt/devices/0-1')
    writeFileSync(join(xdomain, 'rx_speed'), 'fast\n')
    writeFileSync(join(xdomain, 'tx_lanes'), '-1\n')
    writeFileSync(join(xdomain, 'device_name'), 'a\u001b[31mb\n')
    expect(linuxInventory(root).links[0]).toMatchObject({
      remoteName: 'a[31mb',
      trained: { receive: undefined, transmit: undefined },
    })
  })

  it('are none where there is no Thunderbolt bus', () => {
    expect(linuxInventory(folder())).toEqual({ links: [], loops: [], e2e: undefined, networkDriver: undefined })
  })
})
