import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import axe from 'axe-core'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { DashboardMachine } from '../../src/dashboard/machine.ts'
import { pageFiles } from '../../src/dashboard/page-files.ts'
import { simulatedMachine } from '../../src/dashboard/simulated-machine.ts'
import { startDashboard, type RunningDashboard } from '../../src/dashboard/start.ts'

const page = pageFiles(fileURLToPath(new URL('../../dist/dashboard/', import.meta.url)))
const pictures = fileURLToPath(new URL('../../../../.artifacts/dashboard/', import.meta.url))
const token = 'a'.repeat(64)

let browser: Browser
let machine: DashboardMachine
let dashboard: RunningDashboard

beforeAll(async () => {
  mkdirSync(pictures, { recursive: true })
  browser = await chromium.launch({
    executablePath: process.env['EGPU_CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  })
  machine = await simulatedMachine(7)
  dashboard = await startDashboard({ machine, token, port: 0, page })
})

afterAll(async () => {
  await dashboard[Symbol.asyncDispose]()
  await machine[Symbol.asyncDispose]()
  await browser.close()
})

const opened: Page[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.context().close()))
})

interface View {
  readonly scheme?: 'light' | 'dark'
  readonly width?: number
}

async function open({ scheme = 'light', width = 1_100 }: View = {}): Promise<Page> {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 900 } })
  const opening = await context.newPage()
  opened.push(opening)
  const broken: string[] = []
  opening.on('pageerror', (error) => broken.push(error.message))
  opening.on('console', (message) => message.type() === 'error' && broken.push(message.text()))
  await opening.goto(dashboard.url)
  await opening.getByText('live', { exact: true }).waitFor()
  await opening.getByRole('heading', { name: 'Machine' }).waitFor()
  expect(broken).toEqual([])
  return opening
}

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly impact: string; readonly nodes: readonly unknown[] }[]
}

async function accessibility(of: Page): Promise<string[]> {
  // Past the page's own policy, which lets no foreign script in.
  const session = await of.context().newCDPSession(of)
  await session.send('Runtime.evaluate', { expression: axe.source })
  const answer = await session.send('Runtime.evaluate', {
    expression: 'axe.run(document, { resultTypes: ["violations"] }).then((result) => JSON.stringify(result))',
    awaitPromise: true,
    returnByValue: true,
  })
  const { violations } = JSON.parse(answer.result.value as string) as AxeResult
  return violations.map(({ id, impact, nodes }) => `${impact}: ${id} ${JSON.stringify(nodes)}`)
}

describe('the dashboard in a browser', () => {
  it('shows every view of the machine', async () => {
    const shown = await open()
    await expect.poll(() => shown.locator('.cable-row[data-cable=in]').count()).toBe(2)
    for (const name of ['Machine', 'Doctor', 'Health and link', 'Workloads', 'Timeline'])
      expect(await shown.getByRole('heading', { name, exact: true }).isVisible()).toBe(true)
    await expect.poll(() => shown.getByRole('row').count()).toBe(3)
    await expect.poll(() => shown.locator('figure canvas').count()).toBe(4)
    await expect.poll(() => shown.locator('figure', { hasText: 'Temperature' }).innerText()).toMatch(/\d+ °C/)
  })

  it('shows a pulled cable, the loss, and the move with what it cost, and the return', async () => {
    const shown = await open()
    const busy = (): string | undefined =>
      machine.workloads().find(({ where }) => where?.deviceId !== undefined)?.where?.deviceId
    await expect.poll(busy).toBeDefined()
    const enclosureId = machine.manager.find(busy() ?? '')?.enclosureId
    const cable = machine.simulator?.cables().find(({ id }) => id === enclosureId)
    await shown.getByRole('button', { name: `Pull the cable: ${cable?.name}` }).click()
    await shown.locator('.cable-row[data-cable=out]', { hasText: cable?.name ?? '' }).waitFor()
    await shown.locator('.timeline li[data-type=disconnected]').first().waitFor()
    await shown.getByRole('button', { name: `Plug it in: ${cable?.name}` }).click()
    await expect.poll(() => shown.locator('.cable-row[data-cable=in]').count()).toBe(2)
    await shown.locator('.timeline li[data-type=returned]').first().waitFor()
    await shown.locator('.timeline li[data-type=migration-completed] .badge').first().waitFor()
  })

  it('ejects with the plan shown first, by keyboard alone', async () => {
    const shown = await open()
    const eject = shown.getByRole('button', { name: /^Eject GPU two/ })
    await eject.focus()
    await shown.keyboard.press('Enter')
    const dialog = shown.getByRole('dialog', { name: /Eject GPU two/ })
    await dialog.getByText('migrator moves its work elsewhere').waitFor()
    await dialog.getByRole('button', { name: 'Eject', exact: true }).focus()
    await shown.keyboard.press('Enter')
    await dialog.getByText(/It is safe to unplug GPU two/).waitFor()
    await shown.keyboard.press('Escape')
    await expect.poll(() => dialog.count()).toBe(0)
    const box = machine.simulator?.cables().find(({ name }) => name.includes('AI Box'))
    machine.simulator?.act(box?.id ?? '', 'pull')
    machine.simulator?.act(box?.id ?? '', 'plug')
  })

  it.each(['light', 'dark'] as const)(
    'has no accessibility fault that axe can see, and a picture, when %s',
    async (scheme) => {
      const shown = await open({ scheme })
      await expect.poll(() => shown.locator('figure canvas').count()).toBe(4)
      expect(await accessibility(shown)).toEqual([])
      await shown.screenshot({ path: `${pictures}${scheme}.png`, fullPage: true })
    },
  )

  it('fits a screen of 360 pixels without scrolling sideways', async () => {
    const shown = await open({ width: 360 })
    const overflow = await shown.evaluate('document.documentElement.scrollWidth - window.innerWidth')
    expect(overflow).toBeLessThanOrEqual(0)
    await shown.screenshot({ path: `${pictures}narrow.png`, fullPage: true })
  })

  it('goes on by itself after the server was started anew', async () => {
    const shown = await open()
    const { port } = dashboard
    await dashboard[Symbol.asyncDispose]()
    await shown.getByRole('status').filter({ hasText: 'not connected' }).waitFor()
    dashboard = await startDashboard({ machine, token, port, page })
    await shown.getByText('live', { exact: true }).waitFor({ timeout: 15_000 })
    machine.simulator?.act(machine.simulator.cables()[0]?.id ?? '', 'pull')
    await shown.locator('.cable-row[data-cable=out]').waitFor()
    machine.simulator?.act(machine.simulator.cables()[0]?.id ?? '', 'plug')
  })
})
