import assert from 'node:assert/strict'
import type { DriverEvent } from '../../driver/events.ts'
import type { Bench } from '../bench.ts'
import { Skip } from '../bench.ts'
import type { Theme } from '../rule.ts'

export const watchTheme: Theme = {
  name: 'watch',
  rules: [
    {
      name: 'begins with a resync that says what list() says',
      async check(bench) {
        const { devices } = await bench.soon('list()', bench.driver.list())
        const { reason, snapshot } = await bench.watch().events.start()
        assert.equal(reason, 'started')
        const said = (all: typeof devices): string[] =>
          all.map(({ key, stage, verdict }) => `${key} is ${stage}, ${verdict?.conclusion ?? 'not judged'}`).sort()
        assert.deepEqual(said(snapshot.devices), said(devices))
      },
    },
    {
      name: 'does not lose a device that goes during the first look',
      async check(bench) {
        requireHotplug(bench)
        const unplug = bench.hand('unplug')
        const { key } = await bench.subject()
        const { events } = bench.watch()
        const first = events.start()
        await unplug()
        await first
        await events.untilPresent(key, false)
      },
    },
    {
      name: 'does not lose a device that comes during the first look',
      async check(bench) {
        requireHotplug(bench)
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { key } = await bench.subject()
        await unplug()
        await untilUnlisted(bench, key)
        const { events } = bench.watch()
        const first = events.start()
        await plug()
        await first
        await events.untilPresent(key, true)
      },
    },
    {
      name: 'tells of a departure and of the return, however close they follow',
      async check(bench) {
        requireHotplug(bench)
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        const pulled = unplug()
        const back = plug()
        await Promise.all([pulled, back])
        await events.until(`the departure of ${key}`, (event) => isDeparture(event, key))
        await events.untilPresent(key, true)
      },
    },
    {
      name: 'calls no departure graceful when the cable was pulled',
      async check(bench) {
        requireHotplug(bench)
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        await unplug()
        await events.untilPresent(key, false)
        await plug()
        // Whatever the driver still has to say of the departure comes before the return.
        await events.untilPresent(key, true)
        const polite = events.seen.find((event) => event.type === 'device-removed' && event.graceful)
        assert.equal(polite, undefined, `${key} was pulled, and its departure is told as graceful`)
      },
    },
    {
      name: 'names only devices it has told of',
      async check(bench) {
        requireHotplug(bench)
        const [unplug, plug] = [bench.hand('unplug'), bench.hand('plug')]
        const { key } = await bench.subject()
        const { events } = bench.watch()
        await events.start()
        await unplug()
        await events.untilPresent(key, false)
        await plug()
        await events.untilPresent(key, true)
        const known = new Set<string>()
        for (const event of events.seen) {
          if (event.type === 'resync') for (const device of event.snapshot.devices) known.add(device.key)
          if (event.type === 'device-observed') known.add(event.device.key)
          if ('key' in event) assert(known.has(event.key), `${event.type} names ${event.key}, which was never told of`)
        }
      },
    },
    {
      name: 'serves several watches, and ending one leaves the others',
      async check(bench) {
        requireHotplug(bench)
        const unplug = bench.hand('unplug')
        const { key } = await bench.subject()
        const [one, two, three] = [bench.watch(), bench.watch(), bench.watch()]
        for (const { events } of [one, two, three]) await events.start()
        one.abort()
        await unplug()
        for (const { events } of [two, three]) await events.untilPresent(key, false)
      },
    },
    {
      name: 'ends without throwing when its signal aborts, and tells nothing afterwards',
      async check(bench) {
        const { events, abort } = bench.watch()
        await events.start()
        abort(new Error('enough'))
        await bench.rig.hands?.unplug?.()
        await untilDone(bench, events)
        const late = events.seen.find((event) => event.type === 'device-lost' || event.type === 'device-removed')
        assert.equal(late, undefined, 'a departure after the abort is not told')
        assert.equal((await events.next('a read after the end')).done, true, 'it stays ended')
      },
    },
    {
      name: 'ends at once when its signal has aborted before, and when it is left with break',
      async check(bench) {
        const aborted = bench.driver.watch({ signal: AbortSignal.abort(new Error('never')) })
        const iterator = aborted[Symbol.asyncIterator]()
        assert.equal((await bench.soon('a watch with an aborted signal', iterator.next())).done, true)
        const { events } = bench.watch()
        await events.start()
        await bench.soon('leaving the loop', events.return())
        assert.equal((await events.next('a read after the end')).done, true)
      },
    },
    {
      name: 'looks afresh after an overflow',
      async check(bench) {
        const overflow = bench.hand('overflow')
        const { events } = bench.watch()
        await events.start()
        await overflow()
        await events.until('a resync after the overflow', (event) => event.type === 'resync')
      },
    },
  ],
}

function requireHotplug({ driver }: Bench): void {
  if (!driver.capabilities.hotplug) throw new Skip(`${driver.name} does not report changes by itself`)
}

function isDeparture(event: DriverEvent, key: string): boolean {
  return (event.type === 'device-lost' || event.type === 'device-removed') && event.key === key
}

/** Already-read items may come before the end; it has to come though. */
async function untilDone(bench: Bench, events: { next(): Promise<IteratorResult<DriverEvent>> }): Promise<void> {
  const read = async (): Promise<void> => {
    while ((await events.next()).done !== true);
  }
  await bench.soon('the watch after its abort', read())
}

/** A driver may go on listing it as lost. */
async function untilUnlisted(bench: Bench, key: string): Promise<void> {
  const deadline = Date.now() + bench.patienceMs
  const isUsable = async (): Promise<boolean> =>
    (await bench.soon('list()', bench.driver.list())).devices.some((each) => each.key === key && each.stage !== 'lost')
  while (await isUsable()) {
    assert(Date.now() < deadline, `${key} is unplugged and still listed`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
