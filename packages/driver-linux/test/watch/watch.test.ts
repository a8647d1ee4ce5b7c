import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { DriverEvent } from '@egpu/core/driver'
import { linuxDriver } from '../../src/driver.ts'
import type { SourceCandidate } from '../../src/watch/open-source.ts'
import type { SourceListener } from '../../src/watch/source.ts'
import { fromProperties } from '../../src/watch/uevent.ts'
import { watchMachine } from '../../src/watch/watch.ts'
import type { WatchContext } from '../../src/watch/watch.ts'
import { gpu, plugged, router, viewOfMachine } from './replay.ts'
import type { Machine } from './replay.ts'

/** A watch on a machine made of values, with a source that the test speaks through. */
class Bench {
  machine: Machine = plugged
  say: SourceListener = () => {}
  closed = 0
  readonly statuses: string[] = []
  readonly stop: AbortController = new AbortController()

  source(kind: SourceCandidate['kind'] = 'kernel'): SourceCandidate {
    return {
      kind,
      open: async (listener) => {
        this.say = listener
        const close = async (): Promise<void> => void this.closed++
        return { kind, close, [Symbol.asyncDispose]: close }
      },
    }
  }

  watch(context: Partial<WatchContext> = {}): AsyncIterator<DriverEvent> {
    const queue = watchMachine(
      {
        look: async () => viewOfMachine(this.machine),
        sources: [this.source()],
        onSource: ({ kind }) => this.statuses.push(kind),
        ...context,
      },
      { signal: this.stop.signal },
    )
    return queue[Symbol.asyncIterator]()
  }
}

let bench = new Bench()
afterEach(() => {
  bench.stop.abort()
  bench = new Bench()
})

async function next(events: AsyncIterator<DriverEvent>): Promise<DriverEvent> {
  const { value, done } = await events.next()
  if (done === true) throw new Error('the watch ended')
  return value
}

describe('a watch', () => {
  it('subscribes before it looks, and begins with a resync', async () => {
    const order: string[] = []
    const events = bench.watch({
      sources: [
        { kind: 'kernel', open: async (listener) => (order.push('subscribed'), bench.source().open(listener)) },
      ],
      look: async () => (order.push('looked'), viewOfMachine(plugged)),
    })
    expect(await next(events)).toMatchObject({ type: 'resync', reason: 'started', snapshot: { devices: [gpu()] } })
    expect(order).toEqual(['subscribed', 'looked'])
  })

  it('does not lose what happens while it looks', async () => {
    let finish: (() => void) | undefined
    const events = bench.watch({
      look: async () => {
        const seen = viewOfMachine(bench.machine)
        await new Promise<void>((resolve) => {
          finish = resolve
        })
        return seen
      },
    })
    await sleep(20)
    bench.machine = {}
    bench.say({ type: 'uevent', event: event(router('remove', { SEQNUM: '5' })) })
    const letLooksFinish = setInterval(() => finish?.(), 5)
    const seen: DriverEvent[] = []
    while (seen.at(-1)?.type !== 'device-removed') seen.push(await next(events))
    clearInterval(letLooksFinish)
    expect(seen[0]).toMatchObject({ type: 'resync' })
  })

  it('ends without throwing when its signal aborts, and closes the source', async () => {
    const events = bench.watch()
    await next(events)
    const waiting = events.next()
    bench.stop.abort()
    expect(await waiting).toEqual({ value: undefined, done: true })
    await sleep(10)
    expect(bench.closed).toBe(1)
  })

  it('goes on with the next source when one breaks, says so, and looks at everything again', async () => {
    const events = bench.watch({ sources: [bench.source('kernel'), bench.source('udevadm')] })
    await next(events)
    bench.say({ type: 'failed', reason: 'it crashed' })
    expect(await next(events)).toMatchObject({
      type: 'findings-observed',
      findings: [{ code: 'event-source-fallback' }],
    })
    expect(await next(events)).toMatchObject({ type: 'resync', reason: 'overflow' })
    expect(bench.statuses).toEqual(['kernel', 'udevadm'])
  })

  it('goes back to a source that broke once it works again', async () => {
    let opens = 0
    const flaky: SourceCandidate = {
      kind: 'kernel',
      open: (listener) => {
        if (++opens === 2) return Promise.reject(new Error('still broken'))
        return bench.source('kernel').open(listener)
      },
    }
    const events = bench.watch({ sources: [flaky, bench.source('poll')], safetyRescanMs: 20 })
    await next(events)
    bench.say({ type: 'failed', reason: 'it crashed' })
    while (bench.statuses.length < 3) await next(events)
    expect(bench.statuses).toEqual(['kernel', 'poll', 'kernel'])
    expect(opens).toBe(3)
    bench.machine = {}
    bench.say({ type: 'uevent', event: event(router('remove', { SEQNUM: '5' })) })
    let seen = await next(events)
    while (seen.type !== 'device-leaving') seen = await next(events)
  })

  it('throws when no source is left', async () => {
    const events = bench.watch({ sources: [bench.source('kernel')] })
    await next(events)
    bench.say({ type: 'failed', reason: 'it crashed' })
    await expect(events.next()).rejects.toMatchObject({ code: 'EGPU_NATIVE_UNAVAILABLE' })
  })

  it('leaves a source that stays silent while the machine changes', async () => {
    let seqnum = 10
    const events = bench.watch({
      sources: [bench.source('kernel'), bench.source('poll')],
      look: async () => viewOfMachine({ ...bench.machine, seqnum }),
      safetyRescanMs: 20,
    })
    await next(events)
    bench.machine = {}
    seqnum = 20
    while (bench.statuses.length < 2) await next(events)
    expect(bench.statuses).toEqual(['kernel', 'poll'])
  })

  it('looks at everything after the machine slept', async () => {
    let asleepMs = 0
    const events = bench.watch({ uptimeMs: () => systemClock.now() + asleepMs, safetyRescanMs: 20 })
    await next(events)
    asleepMs = 3_600_000
    let seen = await next(events)
    while (seen.type !== 'resync' || seen.reason !== 'resumed') seen = await next(events)
  })
})

describe('the driver', () => {
  it.runIf(process.platform === 'linux')('watches this machine, says from where, and ends on close', async () => {
    await using driver = linuxDriver()
    const events = driver.watch({ signal: new AbortController().signal })[Symbol.asyncIterator]()
    expect(await next(events)).toMatchObject({ type: 'resync', reason: 'started' })
    expect(driver.eventSource?.kind).toBe('kernel')
    await driver.close()
    expect(await events.next()).toMatchObject({ done: true })
  })

  it('watches a recorded machine without the kernel of this one', async () => {
    const clock: Clock = systemClock
    await using driver = linuxDriver({ sysfsRoot: '/nonexistent', eventSource: bench.source().open, clock })
    const events = driver.watch({ signal: bench.stop.signal })[Symbol.asyncIterator]()
    expect(await next(events)).toMatchObject({ snapshot: { devices: [], enclosures: [] } })
  })
})

function event(properties: Parameters<typeof router>[1]): NonNullable<ReturnType<typeof fromProperties>> {
  const parsed = fromProperties(new Map(Object.entries(properties ?? {})))
  if (parsed === undefined) throw new Error('no event')
  return parsed
}
