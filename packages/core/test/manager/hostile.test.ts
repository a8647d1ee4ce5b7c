import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { DriverEvent } from '../../src/driver/events.ts'
import type { DriverSnapshot } from '../../src/driver/observation.ts'
import { EGpuManager } from '../../src/manager/manager.ts'
import type { ComputeTarget, OpenTarget } from '../../src/types/target.ts'
import { monitored } from '../helpers/monitored.ts'
import { settle } from '../helpers/manual-clock.ts'
import { seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const never = (): Promise<never> => new Promise(() => undefined)
const wrong = (value: unknown): never => value as never

describe('listeners and waits', () => {
  it('calls no listener after its unsubscribe function, even from within the same event', async () => {
    const { manager } = await monitored([new ScriptedDriver()])
    const heard: string[] = []
    let off = (): void => undefined
    manager.on('findings-changed', () => {
      heard.push('first')
      off()
    })
    off = manager.on('findings-changed', () => void heard.push('second'))
    manager.on('findings-changed', () => void heard.push('third'))
    manager.report({ type: 'findings-changed', findings: [] })
    expect(heard).toEqual(['first', 'third'])
  })

  it('reports the rejection of anything that can be awaited, not only of promises', async () => {
    const { manager } = await monitored([new ScriptedDriver()])
    const failure = manager.next('listener-failed')
    const error = new Error('thenable')
    // oxlint-disable-next-line unicorn/no-thenable
    manager.on('findings-changed', () => ({ then: (_: unknown, reject: (reason: Error) => void) => reject(error) }))
    manager.report({ type: 'findings-changed', findings: [] })
    expect(await failure).toMatchObject({ event: 'findings-changed', error })
  })

  it('refuses a listener that is no function', async () => {
    const { manager } = await monitored([new ScriptedDriver()])
    expect(() => manager.on('ready', wrong(undefined))).toThrow(TypeError)
  })
})

describe('long waits', () => {
  it('sleeps longer than one timer can, until aborted', async () => {
    const end = new AbortController()
    let woke = false
    const sleep = systemClock.sleep(2 ** 33, { signal: end.signal }).then(
      () => (woke = true),
      () => undefined,
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(woke).toBe(false)
    end.abort()
    await sleep
  })

  it('lets a driver answer under any timeout', async () => {
    const driver = Object.assign(new ScriptedDriver('slow', [seen('a')]), {
      list: async (): Promise<DriverSnapshot> => {
        await new Promise((resolve) => setTimeout(resolve, 30))
        return driver.snapshot
      },
    })
    await using manager = await EGpuManager.create({ drivers: [driver], driverTimeoutMs: 1e12 })
    expect(manager.devices).toHaveLength(1)
  })
})

describe('malformed looks', () => {
  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['no enclosures', { devices: [], findings: [] }],
    ['no findings', { devices: [], enclosures: [] }],
    ['a null device', { devices: [null], enclosures: [], findings: [] }],
    ['a null identity', { devices: [{ ...seen('x'), identity: null }], enclosures: [], findings: [] }],
    ['a null gpu', { devices: [{ ...seen('x'), gpu: null }], enclosures: [], findings: [] }],
    ['a numeric uuid', { devices: [seen('x', { identity: { uuid: wrong(7) } })], enclosures: [], findings: [] }],
    [
      'a numeric address',
      { devices: [seen('x', { identity: { pciAddress: wrong(7) } })], enclosures: [], findings: [] },
    ],
    ['an odd stage', { devices: [seen('x', { stage: wrong('odd') })], enclosures: [], findings: [] }],
    ['an odd verdict', { devices: [seen('x', { verdict: wrong({}) })], enclosures: [], findings: [] }],
    ['a null verdict', { devices: [seen('x', { verdict: wrong(null) })], enclosures: [], findings: [] }],
    ['a null enclosure', { devices: [], enclosures: [null], findings: [] }],
    ['an enclosure without id', { devices: [], enclosures: [{}], findings: [] }],
    ['a null finding', { devices: [], enclosures: [], findings: [null] }],
  ])('of one driver (%s) stop no other, at the start and later', async (_what, snapshot) => {
    const good = new ScriptedDriver('good', [seen('a')])
    const bad = new ScriptedDriver('bad')
    bad.snapshot = wrong(snapshot)
    const { manager } = await monitored([good, bad])
    expect(manager.devices.map((device) => device.sources[0]?.key)).toEqual(['a'])
    expect(manager.drivers[1]?.error).toMatchObject({ driver: 'bad' })
    bad.push({
      type: 'resync',
      reason: 'overflow',
      snapshot: { devices: [seen('b', { identity: { serial: 'b', deviceId: 0x2704 } })], enclosures: [], findings: [] },
    })
    await settle()
    expect(manager.devices).toHaveLength(2)
    bad.push({ type: 'resync', reason: 'overflow', snapshot: wrong(snapshot) })
    await settle()
    expect(manager.devices.some((device) => device.sources[0]?.key === 'a')).toBe(true)
    void manager.findings
    void manager.enclosures
  })

  it('keeps a third device whose key looks like the name of a repeated one', async () => {
    const devices = ['a', 'a', 'a#2'].map((key, index) => seen(key, { identity: { serial: `${index}` } }))
    const { manager } = await monitored([new ScriptedDriver('bus', devices)])
    expect(manager.devices).toHaveLength(3)
  })
})

describe('hostile drivers', () => {
  it('survives a watch whose return() throws', async () => {
    const driver = Object.assign(new ScriptedDriver('bus', [seen('a')]), {
      watch: (): AsyncIterable<DriverEvent> => ({
        [Symbol.asyncIterator]: () => ({
          next: never,
          return: () => {
            throw new Error('no return')
          },
        }),
      }),
    })
    const failures: unknown[] = []
    const note = (error: unknown): void => void failures.push(error)
    process.on('uncaughtException', note)
    onTestFinished(() => void process.off('uncaughtException', note))
    const manager = await EGpuManager.create({ drivers: [driver], driverTimeoutMs: 5 })
    await manager.startMonitoring()
    await manager.close()
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(failures).toEqual([])
  })

  it('closes although a target hangs in close()', async () => {
    const target: ComputeTarget = { id: 't', name: 't', kind: 'gpu', runtime: 'simulated', removable: true }
    const open: OpenTarget = {
      target,
      epoch: 1,
      handle: undefined,
      lost: never(),
      close: never,
      [Symbol.asyncDispose]: never,
    }
    const driver = new ScriptedDriver(
      'bus',
      [],
      { runtimes: ['simulated'] },
      {
        runtime: { targets: () => Promise.resolve([target]), open: () => Promise.resolve(open) },
      },
    )
    const manager = await EGpuManager.create({ drivers: [driver], driverTimeoutMs: 10 })
    await manager.openTarget('bus/t')
    let closed = false
    void manager.close().then(() => (closed = true))
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect(closed).toBe(true)
    expect(driver.closed).toBe(1)
  })

  it('takes a rejected `lost` for a loss', async () => {
    const target: ComputeTarget = {
      id: 't',
      name: 't',
      kind: 'gpu',
      runtime: 'simulated',
      removable: true,
      deviceId: 'a',
    }
    const open: OpenTarget = {
      target,
      epoch: 1,
      handle: undefined,
      lost: Promise.reject(new Error('boom')),
      close: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
    const driver = new ScriptedDriver(
      'bus',
      [seen('a')],
      { runtimes: ['simulated'] },
      {
        runtime: { targets: () => Promise.resolve([target]), open: () => Promise.resolve(open) },
      },
    )
    await using manager = await EGpuManager.create({ drivers: [driver] })
    const opened = await manager.openTarget('bus/t')
    expect(await opened.lost).toMatchObject({ reason: 'unknown', message: expect.stringContaining('boom') })
    expect(manager.devices[0]?.state).toBe('lost')
  })

  it('reads health that cannot be as unknown', async () => {
    const driver = new ScriptedDriver('bus', [seen('a')], { health: true }, { health: { sample: never } })
    const { manager } = await monitored([driver])
    const [device] = manager.devices
    const absurd = {
      atMs: NaN,
      memoryUsedBytes: -5,
      memoryTotalBytes: 10,
      linkRatio: -1,
      fatalErrors: -3,
      correctableErrors: Infinity,
    }
    driver.push({ type: 'health-sampled', key: 'a', sample: absurd })
    await settle()
    expect(manager.health(device!.id)).toMatchObject({
      confidence: 0.2,
      components: { memory: undefined, link: undefined, errors: undefined, faultHistory: 100 },
    })
  })
})

describe('monitoring that is stopped and started', () => {
  it('goes on when the signal of an earlier run aborts late', async () => {
    const driver = new ScriptedDriver('bus', [seen('a')])
    await using manager = await EGpuManager.create({ drivers: [driver] })
    const first = new AbortController()
    await manager.startMonitoring({ healthIntervalMs: 0, signal: first.signal })
    void manager.stopMonitoring()
    const second = manager.startMonitoring({ healthIntervalMs: 0 })
    first.abort()
    await second
    await settle()
    expect(driver.queues.size).toBe(1)
  })
})
