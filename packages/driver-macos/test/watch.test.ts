import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEvent } from '@egpu/core/driver'
import { describe, expect, it } from 'vitest'
import { EGpuMac, enclosureId, Events, gpuKey } from './egpu-mac.ts'

/** What an event is about, without its payload. */
function brief(event: DriverEvent): string {
  if (event.type === 'device-observed') return `${event.type} ${event.device.key} ${event.device.stage}`
  if (event.type === 'enclosure-observed') return `${event.type} ${event.enclosure.id}`
  if (event.type === 'findings-observed') return `${event.type} ${event.findings.map((one) => one.code).join()}`
  if (event.type === 'resync') return `${event.type} ${event.reason}`
  if ('key' in event) return `${event.type} ${event.key}`
  return `${event.type} ${event.id}`
}

for (const mode of ['poll', 'push'] as const) {
  describe(`a watch in ${mode} mode`, () => {
    it('tells of a box, its GPU, the driver that attaches later, and of what is missing meanwhile', async () => {
      const machine = await EGpuMac.boot({ plugged: false })
      await using driver = machine.driver({}, { mode })
      await using events = new Events(driver)
      await events.untilType('resync')
      machine.plugRouter()
      const enclosure = await events.untilType('enclosure-observed')
      expect(enclosure).toMatchObject({ enclosure: { id: enclosureId, name: 'Core X V2', port: 'receptacle1' } })
      const missing = await events.untilType('findings-observed')
      expect(brief(missing)).toBe('findings-observed enclosure-without-gpu')
      machine.plugTunnel()
      expect(brief(await events.untilType('device-observed'))).toBe(`device-observed ${gpuKey} present`)
      expect(brief(await events.untilType('findings-observed'))).toBe('findings-observed gpu-undriven')
      machine.attachExtension()
      expect(brief(await events.untilType('device-observed'))).toBe(`device-observed ${gpuKey} ready`)
      expect(brief(await events.untilType('findings-observed'))).toBe('findings-observed ')
    })

    it('says that the GPU is leaving when its router goes first, then that it has gone', async () => {
      const machine = await EGpuMac.boot()
      await using driver = machine.driver({}, { mode })
      await using events = new Events(driver)
      await events.untilType('resync')
      machine.unplugRouter()
      await events.untilType('enclosure-removed')
      machine.unplugTunnel()
      const gone = await events.untilType('device-removed')
      expect(gone).toEqual({ type: 'device-removed', key: gpuKey, graceful: false })
    })

    it('tells of the departure by id alone, whether or not the kernel keeps the properties', async () => {
      for (const keepProperties of [true, false]) {
        const machine = await EGpuMac.boot()
        await using driver = machine.driver({}, { mode })
        await using events = new Events(driver)
        await events.untilType('resync')
        machine.unplug({ keepProperties })
        await events.untilType('device-removed')
        await events.until((event) => event.type === 'enclosure-removed' || event.type === 'findings-observed')
      }
    })

    it('keeps what comes for the next wait when one is given up', async () => {
      const machine = await EGpuMac.boot({ plugged: false })
      await using source = machine.mac.source({ mode, pollIntervalMs: 20 })
      await using watch = await source.watch?.(['IOPCIDevice'], new AbortController().signal)
      const end = new AbortController()
      const givenUp = watch?.next({ signal: end.signal, timeoutMs: 10_000 })
      await sleep(5)
      end.abort(new Error('enough'))
      await expect(givenUp).rejects.toThrow('enough')
      machine.plug()
      // Past the moment at which the wait that was given up would have looked again.
      await sleep(60)
      const change = await watch?.next({ signal: new AbortController().signal, timeoutMs: 10_000 })
      expect(change?.added).toContain(machine.gpuId)
    })

    it('tells of an unplug and a re-plug within one period as both', async () => {
      const machine = await EGpuMac.boot()
      await using driver = machine.driver({}, { mode, pollIntervalMs: 60 })
      await using events = new Events(driver)
      await events.untilType('resync')
      machine.unplug()
      machine.plug()
      await events.untilType('device-removed')
      expect(brief(await events.untilType('device-observed'))).toBe(`device-observed ${gpuKey} present`)
    })
  })
}

describe('a watch', () => {
  it('gives leaving before removed when both come together', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver({}, { pollIntervalMs: 100 })
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.unplugRouter()
    await events.untilType('device-leaving')
    machine.unplugTunnel()
    await events.untilType('device-removed')
  })

  it('finds a GPU that is published long before it is matched', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.plug({ matched: false })
    await events.untilType('enclosure-observed')
    await sleep(60)
    expect(events.types).not.toContain('device-observed')
    machine.mac.match(machine.tunnelId)
    await events.untilType('device-observed')
  })

  it('sees a link that retrains, which nothing tells of', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.mac.set(machine.gpuId, 'IOPCIExpressLinkStatus', 0x1041)
    const seen = await events.untilType('device-observed')
    const hops = seen.type === 'device-observed' ? seen.device.link?.hops : undefined
    expect(hops?.at(-1)).toMatchObject({ lanes: 4, gtPerSecond: 2.5 })
  })

  it('says that a GPU is wedged when it did not answer after a sleep', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.wedge()
    expect(brief(await events.untilType('device-wedged'))).toBe(`device-wedged ${gpuKey}`)
    await expect(driver.health?.sample(gpuKey)).rejects.toMatchObject({ code: 'EGPU_DEVICE_LOST' })
  })

  it('finds by looking what no notification tells of', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.mac.fail('notify', 1_000_000)
    machine.plug()
    await events.untilType('device-observed')
    machine.unplug()
    await events.untilType('device-removed')
    machine.mac.fail('notify', 0)
  })

  it('looks afresh when the kernel dropped changes', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.overflow()
    expect(brief(await events.untilType('resync'))).toBe('resync overflow')
  })

  it('looks afresh also when the first look after dropped changes was refused', async () => {
    const machine = await EGpuMac.boot()
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.mac.fail('IOServiceGetMatchingServices', 2)
    machine.overflow()
    expect(brief(await events.untilType('resync'))).toBe('resync overflow')
  })

  it('goes on after the kernel refused a look or two, and gives up when it keeps refusing', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    await using driver = machine.driver()
    await using events = new Events(driver)
    await events.untilType('resync')
    machine.mac.fail('IOServiceGetMatchingServices', 3)
    machine.plug()
    await events.untilType('device-observed')
    machine.mac.fail('IOServiceGetMatchingServices', 1000)
    machine.unplug()
    while (events.error === undefined) await sleep(5)
    expect(events.error).toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
    machine.mac.fail('IOServiceGetMatchingServices', 0)
  })

  it('fails at once when the kernel refuses the subscription, and leaves nothing behind', async () => {
    const machine = await EGpuMac.boot()
    const before = machine.mac.counts()
    for (const mode of ['poll', 'push'] as const) {
      for (const call of ['IONotificationPortCreate', 'IOServiceAddMatchingNotification']) {
        machine.mac.fail(call, 1)
        await using driver = machine.driver({}, { mode })
        await using events = new Events(driver)
        while (events.error === undefined) await sleep(5)
        expect(events.error).toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE', message: expect.stringContaining(call) })
      }
    }
    expect(machine.mac.counts()).toEqual(before)
  })

  it('takes the messages that its port gets, also where it never needs them', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    await using driver = machine.driver({}, { pollIntervalMs: 1 })
    await using events = new Events(driver)
    await events.untilType('resync')
    for (let cycle = 0; cycle < 30; cycle += 1) {
      machine.plug()
      await events.untilType('device-observed')
      machine.unplug()
      await events.untilType('device-removed')
    }
    expect(machine.mac.counts().pings).toBeLessThan(10)
  })

  it('leaves no object, handle or port behind after many plugs, and never releases twice', async () => {
    const machine = await EGpuMac.boot({ plugged: false })
    const before = machine.mac.counts()
    for (const mode of ['poll', 'push'] as const) {
      await using driver = machine.driver({ rescanMs: 5 }, { mode, pollIntervalMs: 1 })
      await using events = new Events(driver)
      await events.untilType('resync')
      for (let cycle = 0; cycle < 50; cycle += 1) {
        machine.plug()
        await events.untilType('device-observed')
        machine.unplug({ keepProperties: cycle % 2 === 0 })
        await events.untilType('device-removed')
      }
    }
    expect(machine.mac.counts()).toEqual(before)
  })
})

async function drain(events: AsyncIterable<DriverEvent>): Promise<void> {
  for await (const _event of events) continue
}

describe('a call that is aborted', () => {
  it('rejects with the reason and leaves nothing behind, at whichever await it was', async () => {
    const machine = await EGpuMac.boot()
    const before = machine.mac.counts()
    const outcomes = new Set<string>()
    for (let turns = 0; turns < 40; turns += 1) {
      await using driver = machine.driver({}, { mode: turns % 2 === 0 ? 'poll' : 'push' })
      const end = new AbortController()
      const reason = new Error(`enough after ${turns}`)
      const settled = Promise.allSettled([
        driver.probe(end),
        driver.list(end),
        driver.health?.sample(gpuKey, end) ?? Promise.reject(new Error('no health')),
        drain(driver.watch(end)),
      ])
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
      end.abort(reason)
      for (const [index, outcome] of (await settled).entries()) {
        outcomes.add(`${index} ${outcome.status}`)
        expect(outcome.status === 'rejected' ? outcome.reason : reason).toBe(reason)
      }
    }
    // Some were still under way and some had an answer; a watch ends without throwing.
    expect([...outcomes].sort()).toEqual([
      '0 fulfilled',
      '0 rejected',
      '1 fulfilled',
      '1 rejected',
      '2 fulfilled',
      '2 rejected',
      '3 fulfilled',
    ])
    expect(machine.mac.counts()).toEqual(before)
  })
})
