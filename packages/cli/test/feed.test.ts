import { EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Feed } from '../src/dashboard/feed.ts'
import { followFeed } from '../src/dashboard/stream.ts'

/** Long enough for a machine that does much else. */
const soon = { timeout: 30_000 }

let manager: EGpuManager
let looks: number
let feed: Feed

beforeEach(async () => {
  manager = await EGpuManager.create({ drivers: [simDriver({ gpus: [{ name: 'GPU' }] })] })
  looks = 0
  const workloads = (): readonly [] => {
    looks += 1
    return []
  }
  feed = new Feed({ name: 'a machine', manager, workloads, [Symbol.asyncDispose]: () => manager.close() })
})

afterEach(async () => {
  feed[Symbol.dispose]()
  await manager.close()
})

const saved = (progress: number): void =>
  manager.report({ type: 'checkpoint-saved', workloadId: 'work', progress, bytes: 1, pauseMs: 1 })

interface Page {
  readonly messages: { readonly event?: string | undefined; readonly data: string | Promise<string> }[]
  readonly leave: () => Promise<void>
}

function openPage(): Page {
  const [gone, messages]: [AbortController, Page['messages'][number][]] = [new AbortController(), []]
  const following = followFeed(feed, undefined, async (message) => void messages.push(message), gone.signal)
  const leave = async (): Promise<void> => {
    gone.abort()
    await following
  }
  return { messages, leave }
}

const entriesOf = ({ messages }: Page): number[] =>
  messages
    .filter(({ event }) => event === 'entries')
    .flatMap(({ data }) => JSON.parse(data as string) as { seq: number }[])
    .map(({ seq }) => seq)

describe('the feed of a dashboard', () => {
  it('does not look at the machine while nobody watches', async () => {
    for (let progress = 0; progress < 100; progress += 1) saved(progress)
    await manager.next('checkpoint-saved', { signal: AbortSignal.timeout(300) }).catch(() => {})
    expect(looks).toBe(0)
    expect(feed.entries.count).toBe(100)
  })

  it('looks once for all pages that watch, and stops with the last', async () => {
    const pages = Array.from({ length: 20 }, openPage)
    const before = looks
    for (let progress = 0; progress < 1_000; progress += 1) saved(progress)
    await expect.poll(() => pages.every((page) => entriesOf(page).length === 1_000), soon).toBe(true)
    for (const page of pages) expect(entriesOf(page)).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 1))
    // Far fewer than one for each page and event, whatever the speed of this machine.
    expect(looks - before).toBeLessThan(500)
    for (const page of pages) await page.leave()
    const after = looks
    saved(0)
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(looks).toBe(after)
  })

  it('sends a page the state at once, and again only when it differs', async () => {
    const page = openPage()
    const states = (): number => page.messages.filter(({ event }) => event === 'state').length
    await expect.poll(states, soon).toBe(1)
    const seen = looks
    await expect.poll(() => looks, soon).toBeGreaterThan(seen + 2)
    expect(states()).toBe(1)
    await page.leave()
  })
})
