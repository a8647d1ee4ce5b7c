import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { noChromium, openPage } from '../support/chromium.ts'
import type { Opened } from '../support/chromium.ts'

interface Run {
  readonly hashes: readonly string[]
  readonly events: readonly { readonly type: string; readonly reason?: string }[]
  readonly stats?: { readonly losses: number; readonly recoveries: number }
}

interface ScenePage {
  runScene(kind: string, antialias: boolean, crashAt: number): Promise<Run>
}

let opened: Opened
beforeAll(async () => {
  if (noChromium !== undefined) return
  const path = fileURLToPath(new URL('pages/three-scene.mjs', import.meta.url))
  const html = '<!doctype html><canvas></canvas><script type="module" src="page.js"></script>'
  opened = await openPage(html, { name: 'page.js', path })
  await opened.page.exposeFunction('crashGpuProcess', () => opened.crash())
  await opened.page.waitForFunction('typeof runScene === "function"')
})
afterAll(() => opened?.[Symbol.asyncDispose]())
beforeEach((context) => {
  if (noChromium !== undefined) context.skip(noChromium)
})

describe.each([false, true])('three.js in Chromium, unmodified, antialias: %s', (antialias) => {
  let bare: Run
  beforeAll(async () => {
    if (noChromium === undefined) bare = await run('bare', antialias, -1)
  })

  test('draws on a protected device what it draws on a bare one', async () => {
    const guarded = await run('protected', antialias, -1)
    expect(guarded.hashes).toEqual(bare.hashes)
    expect(new Set(bare.hashes).size).toBe(bare.hashes.length)
    expect(guarded.stats).toMatchObject({ losses: 0 })
  })

  // Each frame once, half of them with samples to be kept.
  const frames = Array.from({ length: 8 }, (_, frame) => frame).filter((frame) => (frame % 2 === 1) === antialias)
  test.each(frames)('loses nothing when the GPU process crashes after frame %i', async (crashAt) => {
    const crashed = await run('protected', antialias, crashAt)
    expect(crashed.stats?.losses).toBeGreaterThan(0)
    expect(crashed.stats?.recoveries).toBeGreaterThan(0)
    expect(crashed.events.find(({ type }) => type === 'lost')).toMatchObject({ reason: 'process-crash' })
    expect(
      crashed.events.filter(({ type }) => !['lost', 'waiting', 'recovered', 'checkpointed'].includes(type)),
    ).toEqual([])
    expect(crashed.hashes).toEqual(bare.hashes)
  })
})

function run(kind: 'bare' | 'protected', antialias: boolean, crashAt: number): Promise<Run> {
  return opened.page.evaluate(
    ([kind, antialias, crashAt]) => (globalThis as unknown as ScenePage).runScene(kind, antialias, crashAt),
    [kind, antialias, crashAt] as const,
  )
}
