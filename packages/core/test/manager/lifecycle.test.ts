import { describe, expect, it } from 'vitest'
import { EGpuManager } from '../../src/manager/manager.ts'
import type { EGpuEvent } from '../../src/types/events.ts'
import { monitored } from '../helpers/monitored.ts'
import { settle } from '../helpers/manual-clock.ts'
import { adapter, external, internal, seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const box = { id: 'uid-1', name: 'Core X', powerDeliveryWatts: 100, port: 'domain0/port1' }
const boxed = { enclosureId: 'uid-1', identity: { enclosureUid: 'uid-1', enclosureSlot: 0 } }

describe('from cable to ready and away', () => {
  it('enumerates before monitoring, and tells no events for what it had listed', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    expect(manager.devices).toMatchObject([{ state: 'ready', epoch: 1, verdict: { conclusion: 'external' } }])
    await settle()
    expect(types()).toEqual([])
  })

  it('tells each stage of a plug as it comes', async () => {
    const bus = new ScriptedDriver()
    const { manager, types } = await monitored([bus])
    bus.push({ type: 'enclosure-observed', enclosure: box })
    await settle()
    expect(types()).toEqual(['enclosure-connected'])
    bus.push({ type: 'device-observed', device: seen('a', { ...boxed, stage: 'present' }) })
    await settle()
    expect(types()).toEqual(['gpu-present', 'connected'])
    expect(manager.devices[0]).toMatchObject({
      state: 'discovered',
      enclosureName: 'Core X',
      powerDeliveryWatts: 100,
      thunderboltPort: 'domain0/port1',
    })
    bus.push({ type: 'device-observed', device: seen('a', boxed) })
    await settle()
    expect(types()).toEqual(['ready'])
    expect(manager.devices[0]?.state).toBe('ready')
  })

  it('does not call an internal GPU connected, until somebody finds out that it is external', async () => {
    const bus = new ScriptedDriver()
    const { types } = await monitored([bus])
    bus.push({ type: 'device-observed', device: seen('a', { verdict: internal }) })
    await settle()
    expect(types()).toEqual(['gpu-present', 'ready'])
    bus.push({ type: 'device-observed', device: seen('a', { verdict: external }) })
    await settle()
    expect(types()).toEqual(['changed', 'connected'])
  })

  it('tells a surprise unplug at its first sign, then the loss with a new epoch, then the departure', async () => {
    const bus = new ScriptedDriver('bus', [seen('a', boxed)])
    bus.snapshot = { ...bus.snapshot, enclosures: [box] }
    const { manager, told } = await monitored([bus])
    bus.push(
      { type: 'enclosure-removed', id: 'uid-1' },
      { type: 'device-lost', key: 'a', reason: 'reads as all ones' },
      { type: 'device-removed', key: 'a', graceful: false },
    )
    await settle()
    expect(told).toMatchObject([
      { type: 'leaving', device: { state: 'leaving', epoch: 1 }, reason: 'its enclosure is gone' },
      { type: 'enclosure-disconnected', enclosure: { id: 'uid-1' } },
      { type: 'lost', device: { state: 'lost', epoch: 2 }, reason: 'reads as all ones' },
      { type: 'health-changed', after: { components: { faultHistory: expect.any(Number) } } },
      { type: 'disconnected', graceful: false, device: { state: 'removed', powerState: 'disconnected' } },
    ])
    expect(manager.devices).toEqual([])
  })

  it('tells the loss too when a driver only notices that the device has gone', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { types } = await monitored([bus])
    bus.push({ type: 'device-removed', key: 'a', graceful: false })
    await settle()
    expect(types()).toEqual(['lost', 'health-changed', 'disconnected'])
  })

  it('tells a graceful removal without a loss', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { types, manager } = await monitored([bus])
    const id = manager.devices[0]?.id ?? ''
    bus.push(
      { type: 'device-leaving', key: 'a', reason: 'eject' },
      { type: 'device-removed', key: 'a', graceful: true },
    )
    await settle()
    expect(types()).toEqual(['leaving', 'disconnected'])
    expect(manager.registry.epoch(id)).toBe(1)
  })

  it('knows a device that comes back on another port, and how long it was away', async () => {
    const bus = new ScriptedDriver('bus', [seen('a', { ...boxed, thunderboltPort: 'domain0/port1' })])
    const { manager, clock, told } = await monitored([bus])
    const id = manager.devices[0]?.id
    bus.push({ type: 'device-lost', key: 'a', reason: 'gone' })
    await clock.advance(1_500)
    bus.push({ type: 'device-removed', key: 'a', graceful: false })
    await clock.advance(500)
    told.length = 0
    bus.push({ type: 'device-observed', device: seen('other-key', { ...boxed, thunderboltPort: 'domain1/port3' }) })
    await settle()
    expect(told).toMatchObject([
      { type: 'gpu-present' },
      { type: 'connected' },
      {
        type: 'returned',
        awayMs: 2_000,
        device: { id, state: 'returned', epoch: 3, thunderboltPort: 'domain1/port3' },
      },
      { type: 'ready', device: { id, state: 'ready' } },
    ])
  })

  it('keeps a wedged device listed, and has it return when it answers again', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    bus.push({ type: 'device-wedged', key: 'a', reason: 'WEDGED=bus-reset' })
    await settle()
    expect(types()).toEqual(['wedged', 'health-changed'])
    expect(manager.devices[0]?.state).toBe('wedged')
    bus.push({ type: 'device-observed', device: seen('a') })
    await settle()
    expect(types()).toEqual(['gpu-present', 'connected', 'returned', 'ready'])
  })

  it('believes a loss that only one driver noticed, whatever the others still list', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const wgpu = new ScriptedDriver('wgpu', [adapter('w')], { verdict: false })
    const { manager, types } = await monitored([bus, wgpu])
    wgpu.push(
      { type: 'device-lost', key: 'w', reason: 'device.lost' },
      { type: 'device-removed', key: 'w', graceful: false },
    )
    bus.push({ type: 'device-observed', device: seen('a', { kernelDriver: 'nvidia' }) })
    bus.resync('safety-rescan')
    await settle()
    expect(manager.devices[0]?.state).toBe('lost')
    expect(types().filter((type) => type === 'returned')).toEqual([])
    wgpu.push({ type: 'device-observed', device: adapter('w') })
    await settle()
    expect(types()).toContain('returned')
    expect(manager.devices[0]?.sources).toHaveLength(2)
  })

  it('is off the bus when the bus says so, although a graphics API still lists it, and whole again when it returns', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const wgpu = new ScriptedDriver('wgpu', [adapter('w')], { verdict: false })
    const { manager, types } = await monitored([bus, wgpu])
    bus.push({ type: 'device-removed', key: 'a', graceful: true })
    wgpu.resync()
    await settle()
    expect(manager.devices).toEqual([])
    expect(types()).toEqual(['disconnected', 'resynced'])
    bus.push({ type: 'device-observed', device: seen('a') })
    await settle()
    expect(manager.devices.map(({ sources }) => sources.length)).toEqual([2])
  })

  it('treats another card under the same key as one gone and one come', async () => {
    const bus = new ScriptedDriver('bus', [seen('slot', { identity: { serial: '1' } })])
    const { manager, types } = await monitored([bus])
    const id = manager.devices[0]?.id
    bus.push({ type: 'device-observed', device: seen('slot', { identity: { serial: '2' } }) })
    await settle()
    expect(types()).toEqual(['lost', 'health-changed', 'disconnected', 'gpu-present', 'connected', 'ready'])
    expect(manager.devices[0]?.id).not.toBe(id)
  })

  it('takes a departure back when the driver looks again and it is there', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    bus.push({ type: 'device-leaving', key: 'a', reason: 'eject asked' })
    bus.push({ type: 'device-observed', device: seen('a', { stage: 'present' }) })
    await settle()
    expect(manager.devices[0]?.state).toBe('leaving')
    bus.resync()
    await settle()
    expect(manager.devices[0]?.state).toBe('ready')
    expect(types()).toContain('changed')
  })
})

describe('changes of a device that stays', () => {
  it('tells link and power by their own events, everything else as changed, and nothing when nothing is new', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types, told } = await monitored([bus])
    const link = {
      hops: [],
      effectiveGBps: { toDevice: 2.8 },
      downgrade: { at: 'cable', expected: '40', actual: '20' },
    }
    bus.push({ type: 'device-observed', device: seen('a', { link }) })
    await settle()
    expect(told).toMatchObject([
      { type: 'link-speed-changed', before: undefined, after: link, device: { state: 'degraded' } },
    ])
    told.length = 0
    bus.push({ type: 'device-observed', device: seen('a', { link: structuredClone(link), powerState: 'suspended' }) })
    await settle()
    expect(told).toMatchObject([{ type: 'power-state-changed', after: 'suspended', device: { state: 'suspended' } }])
    told.length = 0
    bus.push({
      type: 'device-observed',
      device: seen('a', { link, powerState: 'suspended', displayIds: ['card1/DP-1'] }),
    })
    bus.push({
      type: 'device-observed',
      device: seen('a', { link, powerState: 'suspended', displayIds: ['card1/DP-1'] }),
    })
    await settle()
    expect(types()).toEqual(['changed'])
    expect(manager.registry.history(manager.devices[0]?.id ?? '').map(({ to }) => to)).toEqual([
      'discovered',
      'ready',
      'degraded',
      'suspended',
    ])
  })

  it('hands out snapshots that later changes leave alone', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager } = await monitored([bus])
    const before = manager.devices
    expect(manager.devices).toBe(before)
    bus.push({ type: 'device-wedged', key: 'a', reason: 'test' })
    await settle()
    expect(before[0]?.state).toBe('ready')
    expect(manager.devices[0]?.state).toBe('wedged')
    expect(Object.isFrozen(before)).toBe(true)
  })
})

describe('resync and refresh', () => {
  it('tells the differences of a resync before it, departures first', async () => {
    const bus = new ScriptedDriver('bus', [seen('a', { identity: { serial: '1' } })])
    const { types, manager } = await monitored([bus])
    bus.snapshot = {
      devices: [seen('b', { identity: { serial: '2' } })],
      enclosures: [box],
      findings: [{ code: 'cable', severity: 'warning', seen: 'slow', advice: 'replace' }],
    }
    bus.resync()
    await settle()
    expect(types()).toEqual([
      'lost',
      'health-changed',
      'disconnected',
      'enclosure-connected',
      'gpu-present',
      'connected',
      'ready',
      'findings-changed',
      'resynced',
    ])
    expect(manager.findings).toHaveLength(1)
    expect(manager.enclosures).toMatchObject([{ id: 'uid-1', seenBy: 'bus' }])
  })

  it('names the devices of findings by their ids, in the list and in the event', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, told } = await monitored([bus])
    const finding = { code: 'cable', severity: 'warning', seen: 'slow', advice: 'replace', deviceId: 'a' } as const
    bus.push({ type: 'findings-observed', findings: [finding] })
    await settle()
    const { id } = manager.devices[0] as { id: string }
    expect(id).not.toBe('a')
    expect(manager.findings).toEqual([{ ...finding, deviceId: id }])
    expect(told.at(-1)).toMatchObject({ type: 'findings-changed', findings: manager.findings })
  })

  it('does not let a list that events have overtaken bring a device back', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    const stale = bus.snapshot
    let looks = 0
    bus.list = async () => {
      looks += 1
      if (looks > 1) return { ...stale, devices: [] }
      bus.push({ type: 'device-removed', key: 'a', graceful: true })
      await settle()
      return stale
    }
    await manager.refresh()
    expect(looks).toBe(2)
    await settle()
    expect(manager.devices).toEqual([])
    expect(types()).toEqual(['disconnected', 'resynced'])
  })
})

describe('listening', () => {
  it('lets a listener that throws or rejects harm nobody', async () => {
    const bus = new ScriptedDriver()
    const { manager } = await monitored([bus])
    const heard: string[] = []
    const failures: unknown[] = []
    manager.on('listener-failed', ({ event, error }) => {
      failures.push([event, (error as Error).message])
      throw new Error('nobody is left to tell')
    })
    manager.on('gpu-present', () => {
      throw new Error('one')
    })
    manager.on('gpu-present', () => Promise.reject(new Error('two')))
    const off = manager.on('gpu-present', () => heard.push('never'))
    manager.on('gpu-present', () => heard.push('three'))
    off()
    bus.push({ type: 'device-observed', device: seen('a') })
    await settle()
    expect(heard).toEqual(['three'])
    expect(failures).toEqual([
      ['gpu-present', 'one'],
      ['gpu-present', 'two'],
    ])
  })

  it('keeps the order for everybody when a listener causes another event', async () => {
    const bus = new ScriptedDriver()
    const { manager, types } = await monitored([bus])
    manager.on('connected', () => manager.report({ type: 'findings-changed', findings: [] }))
    bus.push({ type: 'device-observed', device: seen('a') })
    await settle()
    expect(types().slice(0, 3)).toEqual(['gpu-present', 'connected', 'findings-changed'])
  })

  it('waits for the next event that fits, and stops waiting on abort and on close', async () => {
    const bus = new ScriptedDriver()
    const { manager } = await monitored([bus])
    const second = manager.next('gpu-present', { where: ({ device }) => device.verdict.conclusion === 'internal' })
    bus.push(
      { type: 'device-observed', device: seen('a') },
      { type: 'device-observed', device: seen('b', { verdict: internal, identity: { serial: '2' } }) },
    )
    expect((await second).device.verdict).toEqual(internal)
    const reason = new Error('enough')
    await expect(manager.next('lost', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const controller = new AbortController()
    const aborted = manager.next('lost', { signal: controller.signal })
    controller.abort(reason)
    await expect(aborted).rejects.toBe(reason)
    const closing = manager.next('lost')
    await Promise.all([expect(closing).rejects.toMatchObject({ code: 'EGPU_CLOSED' }), manager.close()])
  })

  it('streams only the types asked for, from the call on, until the signal', async () => {
    const bus = new ScriptedDriver()
    const { manager } = await monitored([bus])
    const controller = new AbortController()
    const stream = manager.events({ types: ['ready', 'lost'], signal: controller.signal })
    bus.push({ type: 'device-observed', device: seen('a') }, { type: 'device-lost', key: 'a', reason: 'test' })
    await settle()
    const heard: EGpuEvent[] = []
    for await (const event of stream) {
      heard.push(event)
      if (heard.length === 2) controller.abort()
    }
    expect(heard.map(({ type }) => type)).toEqual(['ready', 'lost'])
  })
})

describe('migrations on the same stream', () => {
  it('shows the device as migrating for as long as work is moved off it', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    const deviceId = manager.devices[0]?.id
    const from = { id: 'x', name: 'x', kind: 'gpu', runtime: 'cuda', deviceId, removable: true } as const
    const migration = { migrationId: 'm', workloadId: 'w', from, to: undefined, reason: 'requested' } as const
    manager.report({ type: 'migration-started', migration })
    expect(manager.devices[0]?.state).toBe('migrating')
    manager.report({
      type: 'migration-completed',
      migration: { ...migration, rtoMs: 1, lostProgress: 0, resumedAt: 0 },
    })
    expect(manager.devices[0]?.state).toBe('ready')
    await settle()
    expect(types()).toEqual(['migration-started', 'migration-completed'])
  })
})

it('closes its drivers once, however often it is closed', async () => {
  const bus = new ScriptedDriver('bus', [seen('a')])
  const manager = await EGpuManager.create({ drivers: [bus] })
  await manager.startMonitoring({ healthIntervalMs: 0 })
  await Promise.all([manager.close(), manager.close(), manager[Symbol.asyncDispose]()])
  expect(bus.closed).toBe(1)
  expect(manager.devices).toHaveLength(1)
  expect(() => manager.on('lost', () => undefined)).toThrow(expect.objectContaining({ code: 'EGPU_CLOSED' }))
  await expect(manager.refresh()).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
})
