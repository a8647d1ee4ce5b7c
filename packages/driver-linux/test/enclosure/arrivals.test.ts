import { afterEach, describe, expect, it } from 'vitest'
import { Arrivals } from '../../src/enclosure/arrivals.ts'
import { linuxDriver } from '../../src/driver.ts'
import type { SourceListener } from '../../src/watch/source.ts'
import { fromProperties } from '../../src/watch/uevent.ts'
import type { Uevent } from '../../src/watch/uevent.ts'
import { buildMachine, machineNamed } from '../machines/index.ts'
import { uuid } from '../machines/parts.ts'
import type { Properties } from '../watch/messages.ts'

const gpu = '0000:07:00.0'

function event(properties: Properties): Uevent {
  const parsed = fromProperties(new Map(Object.entries(properties)))
  if (parsed === undefined) throw new Error('no event')
  return parsed
}

const router = (name: string, more: Properties = {}): Uevent =>
  event({
    ACTION: 'add',
    DEVPATH: `/devices/pci0000:00/0000:00:0d.2/domain0/0-0/${name}`,
    SUBSYSTEM: 'thunderbolt',
    DEVTYPE: 'thunderbolt_device',
    ...more,
  })

const tunnel = (details: string): Uevent =>
  event({
    ACTION: 'change',
    DEVPATH: '/devices/pci0000:00/0000:00:0d.2/domain0',
    SUBSYSTEM: 'thunderbolt',
    TUNNEL_EVENT: 'activated',
    TUNNEL_DETAILS: details,
  })

const card = (more: Properties = {}): Uevent =>
  event({
    ACTION: 'add',
    DEVPATH: '/devices/pci0000:00/0000:00:07.0/0000:07:00.0',
    SUBSYSTEM: 'pci',
    PCI_CLASS: '30000',
    PCI_SLOT_NAME: gpu,
    ...more,
  })

/** Times and events, and what they tell of the GPU. */
function told(...heard: readonly (readonly [number, Uevent])[]): {
  readonly tunnel: string | undefined
  readonly after: string | undefined
} {
  const arrivals = new Arrivals()
  for (const [atMs, one] of heard) arrivals.note(one, atMs)
  const { appearedAfter, tunnelEvents } = arrivals.hints()
  return { tunnel: tunnelEvents?.get(gpu), after: appearedAfter?.get(gpu) }
}

const nothing = { tunnel: undefined, after: undefined }

describe('a GPU that arrives', () => {
  it('came with the box and the tunnel that came just before', () => {
    expect(told([0, router('0-101')], [100, tunnel('1:3 <-> 101:9 (PCI)')], [900, card()])).toEqual({
      tunnel: '0-101',
      after: '0-101',
    })
  })

  it('came with the box that was authorized just before, however long that had been there', () => {
    const authorized = router('0-101', { ACTION: 'change', AUTHORIZED: '1' })
    expect(told([0, router('0-101')], [1, router('0-301')], [60_000, authorized], [61_000, card()]).after).toBe('0-101')
  })

  it('is not guessed to be in one of two boxes that came together', () => {
    const both = [
      [0, router('0-101')],
      [5, router('0-301')],
      [6, tunnel('1:3 <-> 101:9 (PCI)')],
      [7, tunnel('1:4 <-> 301:9 (PCI)')],
    ] as const
    expect(told(...both, [900, card()])).toEqual(nothing)
  })

  it('has nothing to do with a box that came long before, the host, another function, or a written event', () => {
    expect(told([0, router('0-101')], [11_000, card()])).toEqual(nothing)
    expect(told([0, router('0-0')], [100, card()])).toEqual(nothing)
    expect(told([0, router('0-101')], [100, card({ PCI_CLASS: '40300' })])).toEqual(nothing)
    expect(told([0, router('0-101', { SYNTH_UUID: '0' })], [100, card()])).toEqual(nothing)
  })

  it('is forgotten when it goes', () => {
    const there = [
      [0, router('0-101')],
      [100, card()],
    ] as const
    expect(told(...there, [200, card({ ACTION: 'remove' })])).toEqual(nothing)
  })

  it('proves nothing after events were lost', () => {
    const arrivals = new Arrivals()
    arrivals.note(router('0-101'), 0)
    arrivals.forget()
    arrivals.note(card(), 100)
    expect(arrivals.hints().appearedAfter?.get(gpu)).toBeUndefined()
  })
})

describe('a watch', () => {
  const stop = new AbortController()
  afterEach(() => stop.abort())

  it('tells two boxes behind a hub apart by the tunnel that the kernel reported', async () => {
    using built = buildMachine(machineNamed('hub-with-egpu-and-ssd'))
    let say: SourceListener = () => {}
    await using driver = linuxDriver({
      sysfsRoot: built.sysfsRoot,
      eventSource: async (listener) => {
        say = listener
        const close = async (): Promise<void> => {}
        return { kind: 'injected', close, [Symbol.asyncDispose]: close }
      },
    })
    const events = driver.watch({ signal: stop.signal })[Symbol.asyncIterator]()
    await events.next()
    const boxOf = async (): Promise<string | undefined> =>
      (await driver.list()).devices.find(({ identity }) => identity.pciAddress === gpu)?.enclosureId
    expect(await boxOf()).toBeUndefined()
    for (const one of [tunnel('1:3 <-> 101:9 (PCI)'), card()]) say({ type: 'uevent', event: one })
    for (;;) {
      const { value } = await events.next()
      if (value?.type === 'device-observed' && value.device.enclosureId === uuid(71)) break
    }
    expect(await boxOf()).toBe(uuid(71))
  })
})
