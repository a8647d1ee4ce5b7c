import { describe, expect, it } from 'vitest'
import { EGpuManager } from '../../src/manager/manager.ts'
import type { EGpuManagerOptions } from '../../src/manager/options.ts'
import type { DeviceObservation } from '../../src/driver/observation.ts'
import { adapter, external, internal, seen } from '../helpers/observations.ts'
import { settle } from '../helpers/manual-clock.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const passive = { verdict: false }

async function fused(
  views: Record<string, readonly DeviceObservation[]>,
  options: Partial<EGpuManagerOptions> = {},
): Promise<string[][]> {
  const drivers = Object.entries(views).map(
    ([name, devices]) => new ScriptedDriver(name, devices, name === 'bus' ? {} : passive),
  )
  await using manager = await EGpuManager.create({ drivers, ...options })
  return manager.devices.map(({ sources }) => sources.map(({ driver, key }) => `${driver}:${key}`))
}

describe('joining what several drivers see', () => {
  it('joins by UUID however it is written', async () => {
    const uuid = 'GPU-1B2C3D4E-0000-1111-2222-333344445555'
    expect(
      await fused({
        bus: [seen('a', { identity: { uuid } })],
        cuda: [seen('0', { identity: { uuid: '1b2c3d4e000011112222333344445555' } })],
      }),
    ).toEqual([['bus:a', 'cuda:0']])
  })

  it('joins by PCI address, and never two different addresses', async () => {
    const at = (pciAddress: string) => ({ identity: { pciAddress } })
    expect(
      await fused({
        bus: [seen('a', at('0000:04:00.0')), seen('b', at('0000:2f:00.0'))],
        cuda: [seen('0', at('0000:2F:00.0')), seen('1', at('0000:04:00.0'))],
      }),
    ).toEqual([
      ['bus:a', 'cuda:1'],
      ['bus:b', 'cuda:0'],
    ])
    expect(await fused({ bus: [seen('a', at('0000:04:00.0'))], cuda: [seen('0', at('0000:05:00.0'))] })).toHaveLength(2)
  })

  it('joins by serial within one model only', async () => {
    const serial = { identity: { serial: '42' } }
    const other = seen('0', { identity: { serial: '42', deviceId: 0x2204 }, gpu: { deviceId: 0x2204 } })
    expect(await fused({ bus: [seen('a', serial), seen('b')], cuda: [seen('0', serial)] })).toContainEqual([
      'bus:a',
      'cuda:0',
    ])
    expect(await fused({ bus: [seen('a', serial)], cuda: [other] })).toHaveLength(2)
  })

  it('joins by board when each side has one of it, whatever the order of the drivers', async () => {
    expect(await fused({ bus: [seen('a')], cuda: [seen('0')] })).toEqual([['bus:a', 'cuda:0']])
    expect(await fused({ cuda: [seen('0')], bus: [seen('a')] })).toEqual([['bus:a', 'cuda:0']])
  })

  it('joins nothing by a board that one side has twice', async () => {
    expect(await fused({ bus: [seen('a'), seen('b')], cuda: [seen('0')] })).toHaveLength(3)
    expect(await fused({ cuda: [seen('0')], bus: [seen('a'), seen('b')] })).toHaveLength(3)
    expect(await fused({ bus: [seen('a'), seen('b')], cuda: [seen('0'), seen('1')] })).toHaveLength(4)
  })

  it('joins an adapter to the only GPU of its maker', async () => {
    const intel = seen('igpu', {
      verdict: internal,
      identity: { vendorId: 0x8086, deviceId: 0x46a6 },
      gpu: { vendor: 'intel', vendorId: 0x8086, deviceId: 0x46a6 },
    })
    expect(await fused({ bus: [intel, seen('a')], wgpu: [adapter('w')] })).toEqual([['bus:a', 'wgpu:w'], ['bus:igpu']])
    expect(await fused({ bus: [seen('a'), seen('b')], wgpu: [adapter('w')] })).toHaveLength(3)
  })

  it('never joins a software adapter of no known maker', async () => {
    const software = adapter('w', {
      identity: { adapterName: 'SwiftShader' },
      gpu: { vendor: 'other', name: 'SwiftShader' },
    })
    expect(await fused({ bus: [seen('a')], wgpu: [software] })).toHaveLength(2)
  })

  it('never joins by UUID what differs in address', async () => {
    const a = seen('a', { identity: { uuid: 'GPU-1', pciAddress: '0000:04:00.0' } })
    const b = seen('0', { identity: { uuid: 'GPU-1', pciAddress: '0000:05:00.0' } })
    expect(await fused({ bus: [a], cuda: [b] })).toHaveLength(2)
  })

  it('joins two devices, under the id the bus knows, once a third view shows that they are one', async () => {
    const bus = new ScriptedDriver('bus', [seen('a', { identity: { pciAddress: '0000:04:00.0' } }), seen('b')])
    const wgpu = new ScriptedDriver('wgpu', [adapter('w', { identity: { uuid: 'GPU-7' } })], passive)
    const cuda = new ScriptedDriver('cuda', [], passive)
    await using manager = await EGpuManager.create({ drivers: [wgpu, bus, cuda] })
    await manager.startMonitoring()
    const before = manager.devices.find(({ sources }) => sources[0]?.driver === 'wgpu')
    const kept = manager.devices.find(({ sources }) => sources[0]?.key === 'a')
    expect(manager.devices).toHaveLength(3)
    const events: string[] = []
    manager.on('disconnected', ({ device, graceful }) => events.push(`${device.id} ${graceful}`))
    cuda.push({
      type: 'device-observed',
      device: seen('0', { identity: { pciAddress: '0000:04:00.0', uuid: 'GPU-7' } }),
    })
    await settle()
    expect(manager.devices).toHaveLength(2)
    expect(manager.get(kept?.id ?? '').sources.map(({ driver }) => driver)).toEqual(['bus', 'wgpu', 'cuda'])
    expect(events).toEqual([`${before?.id} true`])
    expect(manager.find(before?.id ?? '')?.id).toBe(kept?.id)
  })
})

describe('device ids', () => {
  const box = (enclosureUid: string, enclosureSlot = 0) => ({ enclosureUid, enclosureSlot })

  async function ids(...devices: DeviceObservation[]): Promise<string[]> {
    await using manager = await EGpuManager.create({ drivers: [new ScriptedDriver('bus', devices)] })
    return manager.devices.map(({ id }) => id)
  }

  it('stay the same on another port, with other bus numbers and after a restart', async () => {
    const [before] = await ids(seen('a', { identity: { ...box('uid-1'), pciAddress: '0000:04:00.0' } }))
    const [after] = await ids(
      seen('a', { thunderboltPort: 'domain1/port3', identity: { ...box('uid-1'), pciAddress: '0000:7a:00.0' } }),
    )
    expect(after).toBe(before)
    expect(before).toMatch(/^nvidia-2684-[\da-f]{12}$/)
  })

  it('differ for two identical GPUs in two boxes, in one box, and with nothing to tell them apart', async () => {
    const found = await ids(
      seen('a', { identity: box('uid-1') }),
      seen('b', { identity: box('uid-2') }),
      seen('c', { identity: box('uid-2', 1) }),
      seen('d'),
      seen('e'),
    )
    expect(new Set(found).size).toBe(5)
  })

  it('do not depend on the order within a list or among the drivers', async () => {
    const devices = [seen('d'), seen('e'), seen('f', { identity: { serial: '1' } })]
    const uuid = 'GPU-9'
    expect(new Set(await ids(...devices))).toEqual(new Set(await ids(...devices.toReversed())))
    const a = seen('a', { identity: { pciAddress: '0000:04:00.0' } })
    const c = seen('0', { identity: { pciAddress: '0000:04:00.0', uuid } })
    const one = await EGpuManager.create({
      drivers: [new ScriptedDriver('bus', [a]), new ScriptedDriver('cuda', [c], passive)],
    })
    const two = await EGpuManager.create({
      drivers: [new ScriptedDriver('cuda', [c], passive), new ScriptedDriver('bus', [a])],
    })
    expect(one.devices[0]?.id).toBe(two.devices[0]?.id)
    await one.close()
    await two.close()
  })
})

describe('merging', () => {
  it('takes the name from the vendor library, the rest from the bus, and keeps who said what', async () => {
    const a = seen('a', { identity: { pciAddress: '0000:04:00.0' }, gpu: { name: 'AD102' }, kernelDriver: 'nvidia' })
    const c = seen('0', {
      identity: { pciAddress: '0000:04:00.0', uuid: 'GPU-1' },
      gpu: { name: 'NVIDIA GeForce RTX 4090', memoryBytes: 24 * 2 ** 30 },
      kernelDriver: 'something else',
    })
    await using manager = await EGpuManager.create({
      drivers: [new ScriptedDriver('cuda', [c], passive), new ScriptedDriver('bus', [a])],
    })
    const [device] = manager.devices
    expect(device).toMatchObject({
      gpu: { name: 'NVIDIA GeForce RTX 4090', memoryBytes: 24 * 2 ** 30 },
      driver: 'nvidia',
      identity: { uuid: 'GPU-1', pciAddress: '0000:04:00.0' },
    })
    expect(device?.sources.map(({ driver, key }) => [driver, key])).toEqual([
      ['bus', 'a'],
      ['cuda', '0'],
    ])
  })

  it('lets the surer verdict win by the difference, and two equally sure ones mean unknown', async () => {
    const at = { identity: { pciAddress: '0000:04:00.0' } }
    const verdictOf = async (mine: typeof external, theirs: typeof internal) => {
      await using manager = await EGpuManager.create({
        drivers: [
          new ScriptedDriver('one', [seen('a', { ...at, verdict: mine })]),
          new ScriptedDriver('two', [seen('a', { ...at, verdict: theirs })]),
        ],
      })
      return manager.devices[0]?.verdict
    }
    expect(await verdictOf(external, internal)).toMatchObject({ conclusion: 'external', confidence: 0.05 })
    const even = await verdictOf({ ...external, confidence: 0.9 }, internal)
    expect(even).toMatchObject({ conclusion: 'unknown', confidence: 0 })
    expect(even?.evidence).toHaveLength(2)
    expect(await verdictOf(external, external)).toMatchObject({
      confidence: 0.95,
      evidence: [{ signal: 'pci-removable' }],
    })
  })

  it('takes a person at their word', async () => {
    const drivers = [
      new ScriptedDriver('bus', [seen('a', { verdict: internal, identity: { serial: '7' } }), seen('b')]),
    ]
    await using manager = await EGpuManager.create({
      drivers,
      overrides: [{ device: { serial: '7' }, conclusion: 'external', transport: 'oculink' }],
    })
    expect(
      manager.devices.map(({ verdict }) => [verdict.conclusion, verdict.confidence, verdict.transport]),
    ).toContainEqual(['external', 1, 'oculink'])
    expect(manager.externalDevices).toHaveLength(2)
    await expect(
      EGpuManager.create({ drivers: [], overrides: [{ device: {}, conclusion: 'external' }] }),
    ).rejects.toThrow(TypeError)
  })
})
