import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'
import type { Page } from 'playwright-core'

const executablePath = process.env['EGPU_CHROMIUM'] ?? '/usr/bin/chromium'

/** Why there is no browser to test with; `undefined` when there is one. */
export const noChromium: string | undefined = existsSync(executablePath)
  ? undefined
  : `no Chromium at ${executablePath}: install it or set EGPU_CHROMIUM`

/** A browser at a page of ours, with WebGPU on SwiftShader. */
export interface Opened extends AsyncDisposable {
  readonly page: Page
  readonly url: string
  /** Takes the GPU process away, as a driver that crashes does. The next one is another process. */
  crash(): Promise<void>
}

/** Opens a page that runs the bundled script, under the name the page knows it by. */
export async function openPage(
  html: string,
  script: { readonly name: string; readonly path: string },
): Promise<Opened> {
  const bundle = await build({
    entryPoints: [script.path],
    bundle: true,
    format: 'esm',
    write: false,
    conditions: ['@egpu/source'],
    logLevel: 'error',
  })
  const served: Readonly<Record<string, readonly [type: string, body: string]>> = {
    '/': ['text/html', html],
    [`/${script.name}`]: ['text/javascript', bundle.outputFiles[0]?.text ?? ''],
  }
  const server = createServer(({ url = '/' }, response) => {
    const [type, body] = served[url.split('?', 1)[0] ?? ''] ?? ['text/plain', '']
    response.setHeader('content-type', type).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const browser = await chromium.launch({ executablePath, args: flags })
  const page = await browser.newPage()
  const devtools = await browser.newBrowserCDPSession()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  await page.goto(url)
  return {
    page,
    url,
    // The answer would come from the process that crashes.
    crash: () => Promise.race([devtools.send('Browser.crashGpuProcess').catch(() => {}), sleep(200)]) as Promise<void>,
    async [Symbol.asyncDispose]() {
      await browser.close()
      server.close()
    },
  }
}

const flags = [
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
  // Nor does it let a page have a GPU for two minutes after the second crash.
  '--disable-domain-blocking-for-3d-apis',
  // It takes a busy machine for a hung GPU.
  '--disable-gpu-watchdog',
]

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
