import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { EGpuManager, RuntimeKind } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import { loadIdentity, temporaryIdentity, ThunderboltMesh } from '@egpu/mesh'
import axe from 'axe-core'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { FakeMachine } from '../../../driver-cuda/test/machine.ts'
import { CudaPrograms } from '../../src/dashboard/cuda-programs.ts'
import type { DashboardMachine } from '../../src/dashboard/machine.ts'
import { MeshPeers } from '../../src/dashboard/mesh-peers.ts'
import { pageFiles } from '../../src/dashboard/page-files.ts'
import { simulatedMachine } from '../../src/dashboard/simulated-machine.ts'
import { startDashboard, type RunningDashboard } from '../../src/dashboard/start.ts'

const page = pageFiles()
const pictures = fileURLToPath(new URL('../../../../.artifacts/dashboard/', import.meta.url))
const token = 'a'.repeat(64)

/** Long enough for a machine that does much else. */
const soon = { timeout: 60_000 }

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
  readonly url?: string
}

async function open({ scheme = 'light', width = 1_100, url = dashboard.url }: View = {}): Promise<Page> {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 900 } })
  const opening = await context.newPage()
  opened.push(opening)
  const broken: string[] = []
  opening.on('pageerror', (error) => broken.push(error.message))
  opening.on('console', (message) => message.type() === 'error' && broken.push(message.text()))
  await opening.goto(url)
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
    await expect.poll(() => shown.locator('.cable-row[data-cable=in]').count(), soon).toBe(2)
    for (const name of ['Machine', 'Doctor', 'Health and link', 'Workloads', 'Timeline'])
      expect(await shown.getByRole('heading', { name, exact: true }).isVisible()).toBe(true)
    await expect.poll(() => shown.getByRole('row').count(), soon).toBe(3)
    await expect.poll(() => shown.locator('figure canvas').count(), soon).toBe(4)
    await expect.poll(() => shown.locator('figure', { hasText: 'Temperature' }).innerText(), soon).toMatch(/\d+ °C/)
  })

  it('shows a pulled cable, the loss, and the move with what it cost, and the return', async () => {
    const shown = await open()
    const busy = (): string | undefined =>
      machine.workloads().find(({ where }) => where?.deviceId !== undefined)?.where?.deviceId
    await expect.poll(busy, soon).toBeDefined()
    const enclosureId = machine.manager.find(busy() ?? '')?.enclosureId
    const cable = machine.simulator?.cables().find(({ id }) => id === enclosureId)
    await shown.getByRole('button', { name: `Pull the cable: ${cable?.name}` }).click()
    await shown.locator('.cable-row[data-cable=out]', { hasText: cable?.name ?? '' }).waitFor()
    await shown.locator('.timeline li[data-type=disconnected]').first().waitFor()
    await shown.getByRole('button', { name: `Plug it in: ${cable?.name}` }).click()
    await expect.poll(() => shown.locator('.cable-row[data-cable=in]').count(), soon).toBe(2)
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
    await expect.poll(() => dialog.count(), soon).toBe(0)
    const box = machine.simulator?.cables().find(({ name }) => name.includes('AI Box'))
    machine.simulator?.act(box?.id ?? '', 'pull')
    machine.simulator?.act(box?.id ?? '', 'plug')
  })

  it.each(['light', 'dark'] as const)(
    'has no accessibility fault that axe can see, and a picture, when %s',
    async (scheme) => {
      const shown = await open({ scheme })
      await expect.poll(() => shown.locator('figure canvas').count(), soon).toBe(4)
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

/** A host on a cable of its own, as this host's operating system would tell; the cable is the loopback interface. */
function cableToTower(): ConstructorParameters<typeof MeshPeers>[0] {
  const lanes = { lanes: 2, gbpsPerLane: 20 }
  const link = {
    key: 'tower',
    port: 'domain0/port1',
    localUuid: undefined,
    remoteUuid: undefined,
    remoteName: 'tower',
    hubs: 0,
    interfaceName: 'lo',
    mtu: 65_520,
    sticker: 'thunderbolt-4',
    trained: { receive: lanes, transmit: lanes },
    networkService: { e2e: true },
  } as const
  return { inventory: () => ({ links: [link], loops: [], e2e: true, networkDriver: 'loaded' }), probeBytes: 2 ** 20 }
}

describe('a dashboard of a machine with programs of others and a peer', () => {
  it('shows both, what ejecting means for the programs, and parks them', async () => {
    using fake = new FakeMachine()
    const [movable, stuck] = [await fake.start(), await fake.start({ gpu: 1, traits: ['managed', 'only'] })]
    const gpu = { name: 'RTX 4090', vendorId: 0x10de, deviceId: 0x2684, uuid: fake.uuid(0), kernelDriver: 'nvidia' }
    const driver = simDriver({ enclosures: [{ model: 'razer-core-x', plugged: true, gpus: [gpu] }] })
    await using manager = await EGpuManager.create({ drivers: [driver] })
    await manager.startMonitoring()
    await using cuda = new CudaPrograms(manager, fake.options)
    manager.addGuest(cuda)

    const directory = mkdtempSync(join(tmpdir(), 'egpu-dashboard-mesh-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const [there, here] = [temporaryIdentity(), loadIdentity(directory)]
    const paired = { id: there.nodeId, name: 'tower', pairedAt: new Date().toISOString() }
    writeFileSync(join(directory, 'peers.json'), JSON.stringify({ version: 1, peers: [paired] }))
    const target = { id: 'gpu', name: 'RTX 5090', runtime: RuntimeKind.Cuda, kind: 'gpu', removable: true } as const
    const isPaired = (id: string): boolean => id === here.nodeId
    const asTower = { identity: there, isPaired, name: 'tower', port: 0, settleMs: 0, targets: [target] }
    await using tower = await ThunderboltMesh.discover(asTower)
    const staticPeers = [`127.0.0.1:${tower.port}`]
    await using mesh = new MeshPeers({ directory, staticPeers, ...cableToTower() })
    const close = async (): Promise<void> => {}
    const workstation = {
      name: 'a workstation',
      manager,
      cuda,
      mesh,
      workloads: () => [],
      [Symbol.asyncDispose]: close,
    }
    await using served = await startDashboard({ machine: workstation, token, port: 0, page })

    const shown = await open({ url: served.url })
    const programs = shown.getByRole('region', { name: 'Table of programs on NVIDIA GPUs' })
    await programs.getByRole('row', { name: new RegExp(`pid ${movable.pid}.*can be parked or moved`) }).waitFor()
    await programs.getByRole('row', { name: new RegExp(`pid ${stuck.pid}.*managed memory`) }).waitFor()
    await programs.getByText('1.07 GB on RTX 4090').waitFor()

    const peer = shown.getByRole('row', { name: /tower.*Thunderbolt 4.*40 Gb\/s.*µs.*Gb\/s.*Gb\/s.*RTX 5090/ })
    await peer.waitFor()
    const happened = (type: string): ReturnType<typeof shown.locator> =>
      shown.locator(`.timeline li[data-type=${type}]`, { hasText: 'tower' }).first()
    await happened('peer-connected').waitFor()
    await happened('link-up').waitFor()
    expect(await accessibility(shown)).toEqual([])
    await shown.setViewportSize({ width: 360, height: 900 })
    expect(await shown.evaluate('document.documentElement.scrollWidth - window.innerWidth')).toBeLessThanOrEqual(0)
    await shown.screenshot({ path: `${pictures}programs-and-mesh.png`, fullPage: true })

    await shown.getByRole('button', { name: 'Eject RTX 4090' }).click()
    const dialog = shown.getByRole('dialog', { name: 'Eject RTX 4090' })
    await dialog.getByText(`victim (pid ${movable.pid}), 1.07 GB: is parked in host memory`).waitFor()
    await dialog.getByRole('button', { name: 'Eject', exact: true }).click()
    await dialog.getByText(/It is safe to unplug RTX 4090/).waitFor()
    expect(fake.process(movable.pid)).toBe('2 0')
    await shown.keyboard.press('Escape')

    await tower.close()
    await shown.getByText('No paired host can be reached now.').waitFor()
    await happened('link-down').waitFor()
    await happened('peer-lost').waitFor()
  })
})
