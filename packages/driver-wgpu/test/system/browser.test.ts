import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'

const executablePath = process.env['EGPU_CHROMIUM'] ?? '/usr/bin/chromium'

interface Run {
  readonly hashes: readonly string[]
  readonly events: readonly { readonly type: string; readonly reason?: string }[]
  readonly stats?: { readonly losses: number; readonly recoveries: number }
}

let server: Server
let browser: Browser
let page: Page

beforeAll(async () => {
  if (!existsSync(executablePath)) return
  const script = await build({
    entryPoints: [fileURLToPath(new URL('pages/three-scene.mjs', import.meta.url))],
    bundle: true,
    format: 'esm',
    write: false,
    conditions: ['@egpu/source'],
    logLevel: 'error',
  })
  const served: Readonly<Record<string, readonly [type: string, body: string]>> = {
    '/': ['text/html', '<!doctype html><canvas></canvas><script type="module" src="/page.js"></script>'],
    '/page.js': ['text/javascript', script.outputFiles[0]?.text ?? ''],
  }
  server = createServer(({ url = '/' }, response) => {
    const [type, body] = served[url] ?? ['text/plain', '']
    response.setHeader('content-type', type).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  browser = await chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--headless=new',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--enable-unsafe-webgpu',
      '--enable-features=Vulkan',
      '--use-webgpu-adapter=swiftshader',
      '--use-vulkan=swiftshader',
      // Without these a software-rendered page has no textures for a WebGPU canvas.
      '--use-gl=angle',
      '--use-angle=swiftshader',
      '--ignore-gpu-blocklist',
      // Chromium stops relaunching a GPU process that crashes again and again.
      '--disable-gpu-process-crash-limit',
      // It takes a busy machine for a hung GPU.
      '--disable-gpu-watchdog',
    ],
  })
  page = await browser.newPage()
  const devtools = await browser.newBrowserCDPSession()
  await page.exposeFunction('crashGpuProcess', async () => {
    // The answer would come from the process that crashes.
    await Promise.race([devtools.send('Browser.crashGpuProcess').catch(() => {}), sleep(200)])
  })
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await page.waitForFunction('typeof runScene === "function"')
})

afterAll(async () => {
  await browser?.close()
  server?.close()
})

beforeEach((context) => {
  if (!existsSync(executablePath)) context.skip(`no Chromium at ${executablePath}: install it or set EGPU_CHROMIUM`)
})

describe('three.js in Chromium, unmodified', () => {
  test('draws on a protected device what it draws on a bare one', async () => {
    const bare = await run('bare', -1)
    const guarded = await run('protected', -1)
    expect(guarded.hashes).toEqual(bare.hashes)
    expect(new Set(bare.hashes).size).toBe(bare.hashes.length)
    expect(guarded.stats).toMatchObject({ losses: 0 })
  })

  test('loses nothing when the GPU process crashes after frame 2', async () => {
    const bare = await run('bare', -1)
    const crashed = await run('protected', 2)
    expect(crashed.stats?.losses).toBeGreaterThan(0)
    expect(crashed.stats?.recoveries).toBeGreaterThan(0)
    expect(crashed.events.find(({ type }) => type === 'lost')).toMatchObject({ reason: 'process-crash' })
    expect(
      crashed.events.filter(({ type }) => !['lost', 'waiting', 'recovered', 'checkpointed'].includes(type)),
    ).toEqual([])
    expect(crashed.hashes).toEqual(bare.hashes)
  })
})

function run(kind: 'bare' | 'protected', crashAt: number): Promise<Run> {
  return page.evaluate(
    ([kind, crashAt]) =>
      (globalThis as unknown as { runScene(kind: string, crashAt: number): Promise<Run> }).runScene(kind, crashAt),
    [kind, crashAt] as const,
  )
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
