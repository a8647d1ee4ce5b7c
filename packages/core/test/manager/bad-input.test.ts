import { describe, expect, it } from 'vitest'
import type { DriverEvent } from '../../src/driver/events.ts'
import type { EGpuDriver } from '../../src/driver/driver.ts'
import { EGpuManager } from '../../src/manager/manager.ts'
import { monitored } from '../helpers/monitored.ts'
import { ManualClock, settle } from '../helpers/manual-clock.ts'
import { seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const never = (): Promise<never> => new Promise(() => undefined)

describe('drivers that no manager can work with', () => {
  it.each([
    [2, /driver bus speaks version 2 .* accepts 1: upgrade @egpu\/core to a version that accepts 2/],
    [0, /driver bus speaks version 0 .* accepts 1: upgrade the driver to a version that speaks 1/],
    [undefined, /speaks version undefined .* upgrade the driver/],
  ])('refuses contract version %s with what to upgrade', async (specVersion, message) => {
    const driver = Object.assign(new ScriptedDriver(), { specVersion }) as unknown as EGpuDriver
    await expect(EGpuManager.create({ drivers: [driver] })).rejects.toMatchObject({
      code: 'EGPU_DRIVER_SPEC_VERSION',
      driver: 'bus',
      message: expect.stringMatching(message),
    })
  })

  it('refuses a driver whose capabilities and parts disagree', async () => {
    const claims = new ScriptedDriver('claims', [], { health: true })
    const hides = new ScriptedDriver('hides', [], {}, { runtime: { targets: never, open: never } })
    const partial = Object.assign(new ScriptedDriver('partial'), { watch: undefined }) as unknown as EGpuDriver
    for (const [driver, message] of [
      [claims, /declares health but does not have it/],
      [hides, /has runtime but does not declare it/],
      [partial, /has no watch\(\)/],
    ] as const) {
      await expect(EGpuManager.create({ drivers: [driver] })).rejects.toMatchObject({
        code: 'EGPU_DRIVER_MISBEHAVED',
        message: expect.stringMatching(message),
      })
    }
  })

  it('refuses what is no driver, and two of one name, as wrong arguments', async () => {
    await expect(EGpuManager.create({ drivers: [(() => undefined) as unknown as EGpuDriver] })).rejects.toThrow(
      TypeError,
    )
    await expect(EGpuManager.create({} as never)).rejects.toThrow(TypeError)
    const twins = [new ScriptedDriver('same'), new ScriptedDriver('same')]
    await expect(EGpuManager.create({ drivers: twins })).rejects.toThrow(/two drivers are named same/)
  })

  it('refuses a driver that is in use, until its manager has closed, and leaves the others free', async () => {
    const used = new ScriptedDriver('used')
    const free = new ScriptedDriver('free')
    const manager = await EGpuManager.create({ drivers: [used] })
    const inUse = { code: 'EGPU_DRIVER_IN_USE', driver: 'used' }
    await expect(EGpuManager.create({ drivers: [free, used] })).rejects.toMatchObject(inUse)
    await expect(EGpuManager.create({ drivers: [free, free] })).rejects.toMatchObject({ code: 'EGPU_DRIVER_IN_USE' })
    await manager.close()
    await using again = await EGpuManager.create({ drivers: [free, used] })
    expect(again.drivers.map(({ name }) => name)).toEqual(['free', 'used'])
  })
})

describe('drivers that fail at work', () => {
  it('goes on without one that cannot work here, throws in probe or list, and says so of each', async () => {
    const refuses = new ScriptedDriver(
      'refuses',
      [],
      {},
      {
        probe: () => Promise.resolve({ usable: false, reason: 'this is not Linux' }),
      },
    )
    const throws = new ScriptedDriver(
      'throws',
      [],
      {},
      {
        probe: () => {
          throw new Error('segfault averted')
        },
      },
    )
    const listless = new ScriptedDriver('listless', [], {}, { list: () => Promise.reject(new Error('EIO')) })
    const good = new ScriptedDriver('good', [seen('a')])
    await using manager = await EGpuManager.create({ drivers: [refuses, throws, listless, good] })
    expect(manager.devices).toHaveLength(1)
    expect(manager.drivers).toMatchObject([
      { state: 'unusable', reason: 'this is not Linux' },
      {
        state: 'failed',
        error: { code: 'EGPU_DRIVER_MISBEHAVED', message: expect.stringContaining('segfault averted') },
      },
      { state: 'failed', error: { driver: 'listless' } },
      { state: 'usable', reason: undefined },
    ])
  })

  it('goes on without one that hangs in probe', async () => {
    const clock = new ManualClock()
    const hangs = new ScriptedDriver('hangs', [], {}, { probe: never })
    const creating = EGpuManager.create({
      drivers: [hangs, new ScriptedDriver('good', [seen('a')])],
      clock,
      driverTimeoutMs: 500,
    })
    await clock.advance(500)
    await using manager = await creating
    expect(manager.drivers[0]).toMatchObject({ state: 'failed', error: { code: 'EGPU_TIMEOUT' } })
    expect(manager.devices).toHaveLength(1)
    hangs.close = never
    const closing = manager.close()
    await clock.advance(500)
    await closing
  })

  it('rejects when none works, with the reason of each, and leaves the drivers to their owner', async () => {
    const refuses = new ScriptedDriver(
      'refuses',
      [],
      {},
      {
        probe: () => Promise.resolve({ usable: false, reason: 'this is not Linux' }),
      },
    )
    const broken = new ScriptedDriver('broken', [], {}, { list: () => Promise.reject(new Error('EIO')) })
    await expect(EGpuManager.create({ drivers: [refuses, broken] })).rejects.toMatchObject({
      code: 'EGPU_DRIVER_UNAVAILABLE',
      message: expect.stringMatching(/refuses: this is not Linux\n.*broken: driver broken failed: EIO/),
      cause: { driver: 'broken' },
    })
    expect(refuses.closed).toBe(0)
    await expect(EGpuManager.create({ drivers: [refuses] })).rejects.toMatchObject({ code: 'EGPU_DRIVER_UNAVAILABLE' })
  })

  it('tells a watch that throws or ends as fatal, and keeps what it knew and the other drivers', async () => {
    const bad = new ScriptedDriver('bad', [seen('a', { identity: { serial: '1', pciAddress: '0000:04:00.0' } })])
    const good = new ScriptedDriver('good')
    const { manager, told, types } = await monitored([bad, good])
    const cause = new Error('netlink is gone')
    bad.failWatch(cause)
    await settle()
    expect(told).toMatchObject([{ type: 'driver-failed', driver: 'bad', fatal: true, error: { cause } }])
    expect(manager.devices).toHaveLength(1)
    expect(manager.drivers[0]?.state).toBe('failed')
    good.push({ type: 'device-observed', device: seen('b', { identity: { pciAddress: '0000:05:00.0' } }) })
    good.endWatch()
    await settle()
    expect(types()).toEqual(['driver-failed', 'gpu-present', 'connected', 'ready', 'driver-failed'])
    await manager.refresh()
    expect(manager.drivers[0]?.state).toBe('usable')
  })

  it('does not wait for ever for the first look of a watch, and takes it when it comes late', async () => {
    const late = new ScriptedDriver('late')
    const clock = new ManualClock()
    const manager = await EGpuManager.create({ drivers: [late], clock, driverTimeoutMs: 500 })
    const failures: boolean[] = []
    manager.on('driver-failed', ({ fatal }) => failures.push(fatal))
    late.watch = ({ signal }) => {
      const queue = ScriptedDriver.prototype.watch.call(late, { signal })
      for (const one of late.queues) one.clear()
      return queue
    }
    const starting = manager.startMonitoring({ healthIntervalMs: 0 })
    await clock.advance(500)
    await starting
    expect(failures).toEqual([false])
    late.devices = [seen('a')]
    late.resync('started')
    await settle()
    expect(manager.devices).toHaveLength(1)
    await manager.close()
  })

  it('keeps all devices that share a key, says so once, and sends events about the key to the first', async () => {
    const bus = new ScriptedDriver('bus', [
      seen('a', { identity: { serial: '1' } }),
      seen('a', { identity: { serial: '2' } }),
    ])
    const { manager, told, types } = await monitored([bus])
    expect(manager.devices.map(({ identity }) => identity.serial)).toEqual(['1', '2'])
    expect(manager.drivers[0]?.error?.message).toMatch(/same key \(a\)/)
    bus.resync()
    bus.push({ type: 'device-lost', key: 'a', reason: 'test' })
    await settle()
    expect(types()).toEqual(['resynced', 'lost', 'health-changed'])
    expect(manager.devices.map(({ state }) => state)).toEqual(['lost', 'ready'])
    expect(told).toEqual([])
  })

  const wrong: [string, unknown][] = [
    ['a device it never listed', { type: 'device-lost', key: 'ghost', reason: 'x' }],
    ['the health of one', { type: 'health-sampled', key: 'ghost', sample: { atMs: 0 } }],
    ['an enclosure it never listed', { type: 'enclosure-removed', id: 'ghost' }],
    ['something unheard of', { type: 'device-exploded', key: 'a' }],
    ['a device without a key', { type: 'device-observed', device: { ...seen('a'), key: '' } }],
    ['a device without identity', { type: 'device-observed', device: { key: 'z', stage: 'ready' } }],
    ['nothing', undefined],
    ['a resync without a snapshot', { type: 'resync', reason: 'overflow' }],
  ]
  it.each(wrong)('tells of an event about %s, and goes on', async (_what, event) => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { told, types } = await monitored([bus])
    bus.push(event as DriverEvent)
    await settle()
    expect(told).toMatchObject([{ type: 'driver-failed', fatal: false, error: { code: 'EGPU_DRIVER_MISBEHAVED' } }])
    bus.push({ type: 'device-lost', key: 'a', reason: 'test' })
    await settle()
    expect(types()).toEqual(['driver-failed', 'lost', 'health-changed'])
  })

  it('takes departures that come twice or in the wrong order as one', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { types } = await monitored([bus])
    bus.push(
      { type: 'device-removed', key: 'a', graceful: false },
      { type: 'device-lost', key: 'a', reason: 'late' },
      { type: 'device-leaving', key: 'a', reason: 'later' },
      { type: 'device-removed', key: 'a', graceful: false },
    )
    await settle()
    expect(types()).toEqual(['lost', 'health-changed', 'disconnected'])
  })
})

describe('wrong arguments and aborts', () => {
  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '5' as unknown as number])(
    'refuses %s milliseconds',
    async (ms) => {
      const bus = new ScriptedDriver('bus', [seen('a')])
      await expect(EGpuManager.create({ drivers: [bus], driverTimeoutMs: ms })).rejects.toThrow(TypeError)
      await using manager = await EGpuManager.create({ drivers: [bus] })
      await expect(manager.startMonitoring({ healthIntervalMs: ms })).rejects.toThrow(TypeError)
      await expect(manager.safeDisconnect(manager.devices[0]?.id ?? '', { deadlineMs: ms })).rejects.toThrow(TypeError)
    },
  )

  it('passes the abort reason on from everything that waits', async () => {
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    const bus = new ScriptedDriver('bus', [seen('a')])
    await expect(EGpuManager.create({ drivers: [bus], signal })).rejects.toBe(reason)
    await using manager = await EGpuManager.create({ drivers: [bus] })
    const id = manager.devices[0]?.id ?? ''
    await expect(manager.refresh({ signal })).rejects.toBe(reason)
    await expect(manager.startMonitoring({ signal })).rejects.toBe(reason)
    await expect(manager.openTarget('bus/x', { signal })).rejects.toBe(reason)
    expect(manager.get(id).state).toBe('ready')
  })

  it('ends a create that hangs when its signal aborts, and frees the drivers', async () => {
    const hangs = new ScriptedDriver('hangs', [], {}, { probe: never })
    const controller = new AbortController()
    const creating = EGpuManager.create({ drivers: [hangs], signal: controller.signal })
    await settle()
    controller.abort(new Error('enough'))
    await expect(creating).rejects.toThrow('enough')
    hangs.probe = () => Promise.resolve({ usable: true })
    await using manager = await EGpuManager.create({ drivers: [hangs] })
    expect(manager.devices).toEqual([])
  })

  it('stops watching when the signal of startMonitoring aborts, and can start again', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    await using manager = await EGpuManager.create({ drivers: [bus] })
    const controller = new AbortController()
    expect(manager.isMonitoring).toBe(false)
    await manager.startMonitoring({ signal: controller.signal })
    expect(bus.queues.size).toBe(1)
    expect(manager.isMonitoring).toBe(true)
    controller.abort()
    await settle()
    expect(bus.queues.size).toBe(0)
    expect(manager.isMonitoring).toBe(false)
    await manager.startMonitoring()
    await manager.startMonitoring()
    expect(bus.queues.size).toBe(1)
    expect(manager.isMonitoring).toBe(true)
    await manager.stopMonitoring()
    await manager.stopMonitoring()
    expect(bus.queues.size).toBe(0)
    expect(manager.isMonitoring).toBe(false)
  })

  it('says which ids there are not', async () => {
    await using manager = await EGpuManager.create({ drivers: [new ScriptedDriver('bus', [seen('a')])] })
    expect(manager.find('nope')).toBeUndefined()
    expect(() => manager.get('nope')).toThrow(
      expect.objectContaining({ code: 'EGPU_DEVICE_NOT_FOUND', deviceId: 'nope' }),
    )
    await expect(manager.safeDisconnect('nope')).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
    await expect(manager.openTarget('nope')).rejects.toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
  })

  it('closes during everything', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const manager = await EGpuManager.create({ drivers: [bus] })
    bus.list = never
    const closed = { code: 'EGPU_CLOSED' }
    const waits = [manager.refresh(), manager.startMonitoring().then(() => manager.next('lost'))]
    const streaming = (async () => {
      for await (const event of manager.events()) void event
    })()
    const refusals = waits.map((wait) => expect(wait).rejects.toMatchObject(closed))
    await Promise.all([...refusals, streaming, manager.close()])
  })
})
