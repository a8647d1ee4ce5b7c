import { describe, expect, it } from 'vitest'
import { macosInventory } from '../../src/links/macos.ts'

/** Shaped like `system_profiler SPThunderboltDataType -json`; the values are made up. */
const bus = (receptacle: number, uuid: string, items: readonly object[], tag: object = {}): object => ({
  _name: `thunderboltusb4_bus_${receptacle - 1}`,
  domain_uuid_key: uuid,
  device_name_key: 'Mac Studio',
  [`receptacle_${receptacle}_tag`]: {
    receptacle_id_key: String(receptacle),
    current_speed_key: 'Up to 40 Gb/s',
    ...tag,
  },
  _items: items,
})
const host = (uuid: string, name: string): object => ({ _name: name, device_name_key: name, domain_uuid_key: uuid })
const hub = (items: readonly object[]): object => ({ _name: 'Hub', device_name_key: 'Hub', _items: items })
const hardwarePorts = `
Hardware Port: Ethernet
Device: en0
Ethernet Address: 00:00:00:00:00:01

Hardware Port: Thunderbolt 1
Device: en2
Ethernet Address: 00:00:00:00:00:02

Hardware Port: Thunderbolt 2
Device: en3
Ethernet Address: 00:00:00:00:00:03
`
const read = (...buses: readonly object[]) =>
  macosInventory({ thunderbolt: { SPThunderboltDataType: buses }, hardwarePorts, mtu: { en3: 1500 } })

describe('cables on a Mac', () => {
  it('are joined to their interface by the receptacle', () => {
    expect(read(bus(1, 'own-1', []), bus(2, 'own-2', [host('far', 'Mac mini')])).links).toMatchObject([
      {
        port: 'receptacle 2',
        localUuid: 'own-2',
        remoteUuid: 'far',
        remoteName: 'Mac mini',
        interfaceName: 'en3',
        mtu: 1500,
        hubs: 0,
      },
    ])
  })

  it('behind hubs are found', () => {
    expect(read(bus(1, 'own', [hub([hub([host('far', 'Mac mini')])])])).links).toMatchObject([
      { remoteName: 'Mac mini', hubs: 2, interfaceName: 'en2' },
    ])
  })

  it('do not take "up to" for a measurement', () => {
    expect(read(bus(1, 'own', [host('far', 'x')])).links[0]?.trained.receive).toBeUndefined()
    expect(
      read(bus(1, 'own', [host('far', 'x')], { current_link_width_key: '0x2' })).links[0]?.trained.receive,
    ).toEqual({ lanes: 2, gbpsPerLane: 20 })
  })

  it('that join two ports of this Mac are loops', () => {
    const inventory = read(bus(1, 'own-1', [host('own-2', 'me')]), bus(2, 'own-2', [host('own-1', 'me')]))
    expect([inventory.links.length, inventory.loops.length]).toEqual([0, 2])
  })

  it.each([
    undefined,
    null,
    7,
    'x',
    [],
    { SPThunderboltDataType: 3 },
    { SPThunderboltDataType: [null, 7, { _items: {} }] },
  ])('are none in %j', (thunderbolt) => {
    expect(macosInventory({ thunderbolt, hardwarePorts: '' }).links).toEqual([])
  })
})
