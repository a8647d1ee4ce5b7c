import type { SSEMessage } from 'hono/streaming'
import { abandonable } from '@egpu/core'
import { toJson } from '../output/json.ts'
import type { Feed } from './feed.ts'
import type { StreamMessages } from './protocol.ts'

/** A line now and then, so that a connection nobody reads any more is noticed. */
const aliveEveryMs = 15_000

/**
 * Tells one page everything that happens, at the pace it reads. `lastSeen` is what it had seen before its connection
 * broke: `<boot>:<number of the newest entry>`.
 */
export async function followFeed(
  feed: Feed,
  lastSeen: string | undefined,
  write: (message: SSEMessage) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const unfollow = feed.follow()
  try {
    await tellAll(feed, lastSeen, write, signal)
  } finally {
    unfollow()
  }
}

async function tellAll(
  feed: Feed,
  lastSeen: string | undefined,
  write: (message: SSEMessage) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const send = <K extends keyof StreamMessages>(event: K, data: StreamMessages[K]): Promise<void> =>
    write({ event, data: toJson(data), id: `${feed.boot}:${entriesSent}` })

  const [boot, seen] = lastSeen?.split(':') ?? []
  let entriesSent = boot === feed.boot && Number.isSafeInteger(Number(seen)) ? Number(seen) : 0
  let samplesSent = feed.samples.count
  const missed = feed.entries.since(entriesSent)
  entriesSent = feed.entries.count
  await send('history', { boot: feed.boot, entries: missed, samples: feed.samples.since(0) })
  let shown = 0
  let wroteAt = performance.now()

  while (!signal.aborted) {
    const news = feed.news()
    const entries = feed.entries.since(entriesSent)
    const samples = feed.samples.since(samplesSent)
    entriesSent = feed.entries.count
    samplesSent = feed.samples.count
    if (entries.length > 0) await send('entries', entries)
    if (samples.length > 0) await send('samples', samples)
    const { version, json } = feed.shown
    if (version !== shown) await write({ event: 'state', data: json })
    const quiet = entries.length === 0 && samples.length === 0 && version === shown
    shown = version
    if (!quiet) wroteAt = performance.now()
    else if (performance.now() - wroteAt > aliveEveryMs) {
      await write({ event: 'alive', data: '' })
      wroteAt = performance.now()
    }
    try {
      await abandonable(news, signal)
    } catch {
      return
    }
  }
}
