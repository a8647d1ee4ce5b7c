import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { noChromium, openPage } from '../support/chromium.ts'
import type { Opened } from '../support/chromium.ts'

const example = new URL('../../../../examples/survive-unplug-web/', import.meta.url)
const steps = 40
/** A new GPU process and its shaders take their time on a busy machine. */
const patience = { timeout: 120_000 }

test('the picture of the example misses no step when the GPU process crashes under it', async (context) => {
  if (noChromium !== undefined) context.skip(noChromium)
  const html = readFileSync(new URL('www/index.html', example), 'utf8')
  const script = { name: 'picture.js', path: fileURLToPath(new URL('src/picture.ts', example)) }
  await using opened = await openPage(html, script)
  const { page } = opened
  const undisturbed = await lastPicture(opened)
  expect(await page.title()).toBe(`${steps} of ${steps} steps, 0 GPUs lost`)

  await page.goto(`${opened.url}?steps=${steps}`)
  await page.waitForFunction('Number.parseInt(document.title) >= 15')
  await opened.crash()
  await page.waitForFunction('/[^0] GPUs lost/.test(document.title)', undefined, patience)
  expect(await lastPicture(opened, false)).toEqual(undisturbed)
  expect(await page.title()).toBe(`${steps} of ${steps} steps, 1 GPUs lost`)
  // Dots everywhere, in many colours: neither blank nor black.
  const colors = new Set(new Uint32Array(undisturbed.slice().buffer))
  expect(colors.size).toBeGreaterThan(300)
})

/** The pixels on the screen after the last step. */
async function lastPicture({ page, url }: Opened, fresh: boolean = true): Promise<Uint8Array> {
  if (fresh) await page.goto(`${url}?steps=${steps}`)
  await page.waitForFunction(`document.title.startsWith('${steps} of')`, undefined, patience)
  // The picture is drawn again and again from here on; two frames on it is on the screen.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  const png = (await page.locator('canvas').screenshot()).toString('base64')
  const pixels = await page.evaluate(async (base64) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob())
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d')
    context?.drawImage(image, 0, 0)
    return Array.from(context?.getImageData(0, 0, image.width, image.height).data ?? [])
  }, png)
  return Uint8Array.from(pixels)
}
