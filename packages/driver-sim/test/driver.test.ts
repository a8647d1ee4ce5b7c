import type { DriverEvent } from '@egpu/core/driver'
import { describe, expect, it } from 'vitest'
import { simDriver, VirtualClock } from '../src/index.ts'

const coreX = { id: 'core-x', name: 'Razer Core X', gpus: [{ id: 'gpu', name: 'Test GPU' }] }

async function take(events: AsyncIterable<DriverEvent>, count: number): Promise<DriverEvent[]> {
  const seen: DriverEvent[] = []
  for await (const event of events) {
    seen.push(event)
    if (seen.length === count) break
  }
  return seen
}

describe('a simulated machine', () => {
  it('lists a GPU once its enclosure is plugged in, with link and verdict', async () => {
    await using driver = simDriver({ enclosures: [coreX] })
    expect((await driver.list()).devices).toEqual([])
    driver.machine.enclosure('core-x').plug()
    const { devices, enclosures } = await driver.list()
    expect(devices).toHaveLength(1)
    expect(devices[0]).toMatchObject({
      key: 'gpu',
      stage: 'ready',
      enclosureId: 'core-x',
      thunderboltSpeed: 'thunderbolt-3',
      verdict: { conclusion: 'external', transport: 'thunderbolt' },
    })
    expect(enclosures[0]).toMatchObject({ id: 'core-x', authorized: true, port: 'domain0/port1' })
  })

  it('tells of a yank as leaving, lost, removed, in this order and at once', async () => {
    await using driver = simDriver({ enclosures: [{ ...coreX, plugged: true }] })
    const events = driver.watch({ signal: AbortSignal.timeout(5000) })
    driver.machine.enclosure('core-x').yank()
    expect((await take(events, 5)).map((event) => event.type)).toEqual([
      'resync',
      'device-leaving',
      'device-lost',
      'device-removed',
      'enclosure-removed',
    ])
  })

  it('gives a re-plugged GPU its key back, on a new bus number', async () => {
    await using driver = simDriver({ enclosures: [{ ...coreX, plugged: true }] })
    const [before] = (await driver.list()).devices
    const box = driver.machine.enclosure('core-x')
    box.yank()
    box.plug({ port: 'domain1/port3' })
    const [after] = (await driver.list()).devices
    expect(after?.key).toBe(before?.key)
    expect(after?.identity.pciAddress).not.toBe(before?.identity.pciAddress)
    expect(after?.thunderboltPort).toBe('domain1/port3')
  })

  it('brings a GPU up in stages on a virtual clock', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [coreX], timing: { presentAfterMs: 300, readyAfterMs: 900 } })
    driver.machine.enclosure('core-x').plug()
    const stage = (): string => driver.machine.gpu('gpu').stage
    expect(stage()).toBe('absent')
    await clock.advance(300)
    expect(stage()).toBe('present')
    await clock.advance(900)
    expect(stage()).toBe('ready')
    expect(clock.now()).toBe(1200)
  })
})
