import { describe, expect, it } from 'vitest'
import type { HealthCapability } from '../../src/driver/driver.ts'
import { EGpuError } from '../../src/error.ts'
import type { HealthSample } from '../../src/types/health.ts'
import { monitored } from '../helpers/monitored.ts'
import { settle } from '../helpers/manual-clock.ts'
import { seen } from '../helpers/observations.ts'
import { ScriptedDriver } from '../helpers/scripted-driver.ts'

const cool: HealthSample = { atMs: 0, temperatureCelsius: 60, temperatureLimitCelsius: 90 }
const hot: HealthSample = { ...cool, temperatureCelsius: 90 }
const pci = (pciAddress: string) => ({ identity: { pciAddress } })

function sampled(sample: HealthCapability['sample'], keys: readonly string[] = ['a']): ScriptedDriver {
  const devices = keys.map((key, index) => seen(key, pci(`0000:0${index}:00.0`)))
  return new ScriptedDriver('bus', devices, { health: true }, { health: { sample } })
}

describe('health sampling', () => {
  it('samples at the interval, tells a change once, and shows it in the state', async () => {
    let now = cool
    const bus = sampled(() => Promise.resolve(now))
    const { manager, clock, told } = await monitored([bus], { healthIntervalMs: 100 })
    await clock.advance(100)
    const id = manager.devices[0]?.id ?? ''
    expect(manager.health(id)).toMatchObject({ score: 100, confidence: 0.4, level: 'good' })
    told.length = 0
    now = hot
    await clock.advance(1_000)
    expect(told).toMatchObject([
      { type: 'health-changed', before: { level: 'good' }, after: { level: 'degraded', score: 40 } },
    ])
    expect(manager.get(id).state).toBe('degraded')
    now = cool
    await clock.advance(60_000)
    expect(manager.get(id).state).toBe('ready')
  })

  it('hands every reading to who asks for readings by name, and to nobody else', async () => {
    const bus = sampled(() => Promise.resolve(cool))
    const { manager, clock } = await monitored([bus], { healthIntervalMs: 100 })
    const everything: string[] = []
    const readings: unknown[] = []
    const ended = (async () => {
      for await (const { type } of manager.events()) everything.push(type)
    })()
    manager.on('health-sampled', ({ device, driver, sample }) => readings.push([device.id, driver, sample]))
    await clock.advance(200)
    const id = manager.devices[0]?.id
    expect(readings.length).toBeGreaterThan(1)
    expect(readings.at(-1)).toEqual([id, 'bus', cool])
    await manager.close()
    await ended
    expect(everything).not.toContain('health-sampled')
  })

  it('never touches a device that sleeps, goes or is dead', async () => {
    const asked: string[] = []
    const bus = sampled(
      (key) => {
        asked.push(key)
        return Promise.resolve(cool)
      },
      ['awake', 'asleep', 'leaving', 'lost', 'wedged'],
    )
    const { clock } = await monitored([bus], { healthIntervalMs: 100 })
    bus.push(
      { type: 'device-observed', device: seen('asleep', { ...pci('0000:01:00.0'), powerState: 'suspended' }) },
      { type: 'device-leaving', key: 'leaving', reason: 'eject' },
      { type: 'device-lost', key: 'lost', reason: 'gone' },
      { type: 'device-wedged', key: 'wedged', reason: 'hung' },
    )
    await settle()
    asked.length = 0
    await clock.advance(300)
    expect(asked).toEqual(['awake', 'awake', 'awake'])
  })

  it('asks only those that are awake and alive, from the first round on', async () => {
    const asked = new Set<string>()
    const bus = sampled(
      (key) => {
        asked.add(key)
        return Promise.resolve(cool)
      },
      ['awake', 'asleep', 'lost'],
    )
    bus.devices = [
      seen('awake', pci('0000:00:00.0')),
      seen('asleep', { ...pci('0000:01:00.0'), powerState: 'suspended' }),
      seen('lost', { ...pci('0000:02:00.0'), stage: 'lost' }),
    ]
    const { clock } = await monitored([bus], { healthIntervalMs: 100 })
    await clock.advance(500)
    expect([...asked]).toEqual(['awake'])
  })

  it('gives a sample that hangs up, does not ask that device again, and goes on with the others', async () => {
    const asked: string[] = []
    const bus = sampled(
      (key) => {
        asked.push(key)
        return key === 'a' ? new Promise(() => undefined) : Promise.resolve(cool)
      },
      ['a', 'b'],
    )
    const { clock, told } = await monitored([bus], { healthIntervalMs: 100, driverTimeoutMs: 250 })
    await clock.advance(1_000)
    expect(asked.filter((key) => key === 'a')).toHaveLength(1)
    expect(asked.filter((key) => key === 'b').length).toBeGreaterThan(8)
    expect(told.filter(({ type }) => type === 'driver-failed')).toMatchObject([
      { fatal: false, error: { code: 'EGPU_TIMEOUT' } },
    ])
  })

  it('believes a driver that finds the device dead while sampling, and tells any other failure once', async () => {
    let failure: Error = new Error('EIO')
    const bus = sampled(() => Promise.reject(failure))
    const { clock, types, manager } = await monitored([bus], { healthIntervalMs: 100 })
    await clock.advance(500)
    expect(types().filter((type) => type === 'driver-failed')).toHaveLength(1)
    failure = new EGpuError('EGPU_DEVICE_LOST', 'reads as all ones')
    await clock.advance(100)
    expect(manager.devices[0]?.state).toBe('lost')
    expect(types()).toEqual(['lost', 'health-changed'])
  })

  it('takes samples that a driver sends by itself', async () => {
    const bus = new ScriptedDriver('bus', [seen('a')])
    const { manager, types } = await monitored([bus])
    bus.push({ type: 'health-sampled', key: 'a', sample: hot })
    await settle()
    expect(types()).toEqual(['health-changed'])
    expect(manager.health(manager.devices[0]?.id ?? '').components.thermal).toBe(40)
  })

  it('does not call a device that came back sick for what was measured before it left', async () => {
    const bus = sampled(() => new Promise(() => undefined))
    const { manager, clock, told } = await monitored([bus])
    const id = manager.devices[0]?.id ?? ''
    bus.push({ type: 'health-sampled', key: 'a', sample: { ...hot, temperatureCelsius: 99 } })
    await settle()
    expect(manager.get(id).state).toBe('degraded')
    bus.push({ type: 'device-removed', key: 'a', graceful: true })
    await clock.advance(1_000)
    told.length = 0
    bus.push({ type: 'device-observed', device: seen('a', pci('0000:07:00.0')) })
    await settle()
    expect(manager.get(id).state).toBe('ready')
    expect(manager.health(id)).toMatchObject({ level: 'unknown', score: undefined })
    expect(told).toContainEqual(
      expect.objectContaining({ type: 'health-changed', after: expect.objectContaining({ level: 'unknown' }) }),
    )
  })
})
