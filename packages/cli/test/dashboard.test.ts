import { mkdtempSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { simDriver } from '@egpu/driver-sim'
import { EGpuManager, ThunderboltSpeed } from '@egpu/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DashboardMachine } from '../src/dashboard/machine.ts'
import { Ring } from '../src/dashboard/ring.ts'
import { startDashboard, type RunningDashboard } from '../src/dashboard/start.ts'
import { dashboardToken, stateDirectory } from '../src/dashboard/token.ts'

const token = 'b'.repeat(64)
const page = new Map([['/', { type: 'text/html', bytes: new Uint8Array([60, 62]) }]])

async function plainMachine(): Promise<DashboardMachine> {
  const driver = simDriver({
    seed: 1,
    enclosures: [{ name: 'box', speed: ThunderboltSpeed.TB4, plugged: true, gpus: [{ name: 'GPU' }] }],
  })
  const manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring({ healthIntervalMs: 0 })
  return {
    name: 'a machine without hands',
    manager,
    workloads: () => [],
    [Symbol.asyncDispose]: () => manager.close(),
  }
}

let machine: DashboardMachine
let dashboard: RunningDashboard
let own: string

beforeAll(async () => {
  machine = await plainMachine()
  dashboard = await startDashboard({ machine, token, port: 0, page })
  own = `127.0.0.1:${dashboard.port}`
})
afterAll(async () => {
  await dashboard[Symbol.asyncDispose]()
  await machine[Symbol.asyncDispose]()
})

interface Answer {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** `fetch` sets Host and Origin by itself; an attacker does not. */
function ask(path: string, headers: Record<string, string> = {}, method: string = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ port: dashboard.port, host: '127.0.0.1', path, method, headers }, (answer) => {
      let body = ''
      answer.on('data', (chunk: Buffer) => (body += chunk.toString()))
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body }))
      answer.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

const cookie = (): string => `egpu-dashboard-${dashboard.port}=${token}`

describe('who may see the dashboard', () => {
  it('lets in who has the token, and keeps it in a cookie that no script and no other site can use', async () => {
    const entered = await ask(`/?token=${token}`)
    expect(entered.status).toBe(303)
    expect(entered.headers['location']).toBe('/')
    expect(String(entered.headers['set-cookie'])).toMatch(/HttpOnly.*SameSite=Strict/)
    expect((await ask('/', { cookie: cookie() })).status).toBe(200)
  })

  it.each([
    ['no token', '/', {}, 401],
    ['a wrong token', `/?token=${'c'.repeat(64)}`, {}, 401],
    ['a token of another length', '/?token=b', {}, 401],
    ['the token, but not for the page', `/api/stream?token=${token}`, {}, 401],
    ['a cookie of another port', '/', { cookie: `egpu-dashboard-1=${token}` }, 401],
  ])('refuses %s', async (_what, path, headers, status) => {
    expect((await ask(path, headers)).status).toBe(status)
  })

  it.each(['evil.example', 'evil.example:80', '127.0.0.1', 'localhost:1'])(
    'refuses a request that came under the name %s, as after DNS rebinding',
    async (host) => {
      expect((await ask('/', { host, cookie: cookie() })).status).toBe(421)
    },
  )

  it('refuses requests of other pages, also with the cookie', async () => {
    const eject = `/api/devices/${machine.manager.devices[0]?.id}/eject`
    for (const origin of ['https://evil.example', 'null', `http://127.0.0.1:${dashboard.port + 1}`]) {
      expect((await ask('/api/stream', { origin, cookie: cookie() })).status).toBe(403)
      expect((await ask(eject, { origin, cookie: cookie() }, 'POST')).status).toBe(403)
    }
    expect((await ask(eject, { cookie: cookie() }, 'POST')).status).toBe(403)
    expect(machine.manager.externalDevices).toHaveLength(1)
  })

  it('lets its page load nothing from elsewhere, and no page embed it', async () => {
    const { headers } = await ask('/', { cookie: cookie() })
    const policy = String(headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
  })
})

describe('what the dashboard answers', () => {
  const headers = (): Record<string, string> => ({ cookie: cookie(), origin: `http://${own}` })

  it('refuses to touch the cable of a real machine, and an id that does not exist', async () => {
    expect(await ask('/api/cables/box/pull', headers(), 'POST')).toMatchObject({ status: 404 })
    const unknown = await ask('/api/devices/nonsense/plan', headers())
    expect(unknown.status).toBe(409)
    expect(JSON.parse(unknown.body)).toMatchObject({ code: 'EGPU_DEVICE_NOT_FOUND' })
    expect((await ask('/nothing', headers())).status).toBe(404)
  })

  it('says what to do when the port is taken', async () => {
    await expect(startDashboard({ machine, token, port: dashboard.port, page })).rejects.toThrow(
      /port \d+ is taken.*--port/,
    )
  })

  it('ejects, tells the steps, and says that it is safe', async () => {
    const device = machine.manager.devices[0]?.id ?? ''
    const { body } = await ask(`/api/devices/${encodeURIComponent(device)}/eject`, headers(), 'POST')
    const lines = body
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines.length).toBeGreaterThan(1)
    expect(lines.at(-1)).toMatchObject({ safeToUnplug: true })
  })
})

describe('the token', () => {
  it('is random, kept for the owner alone, and made anew when the file is damaged', () => {
    const directory = join(mkdtempSync(join(tmpdir(), 'egpu-token-')), 'egpu')
    const first = dashboardToken(directory)
    expect(first).toMatch(/^[\da-f]{64}$/)
    expect(dashboardToken(directory)).toBe(first)
    const file = join(directory, 'dashboard-token')
    expect(statSync(file).mode & 0o077).toBe(0)
    writeFileSync(file, 'half')
    expect(dashboardToken(directory)).not.toBe(first)
  })

  it('cannot be kept below /proc, which is said at once', () => {
    expect(() => dashboardToken('/proc/nowhere/egpu')).toThrow(expect.objectContaining({ code: 'ENOENT' }))
  })

  it('is never kept below the directory the dashboard was started in', () => {
    expect(stateDirectory('/state', '/home/me')).toBe(join('/state', 'egpu'))
    for (const given of [undefined, '', 'state']) {
      expect(stateDirectory(given, '/home/me')).toBe(join('/home/me', '.local', 'state', 'egpu'))
      for (const home of ['', '.']) expect(isAbsolute(stateDirectory(given, home))).toBe(true)
    }
  })
})

describe('what is kept for pages that read slowly', () => {
  it('gives what came since, as far as it is kept, in order', () => {
    const ring = new Ring<number>(3)
    for (let item = 1; item <= 5; item += 1) ring.push(item)
    expect(ring.count).toBe(5)
    expect(ring.since(0)).toEqual([3, 4, 5])
    expect(ring.since(4)).toEqual([5])
    expect(ring.since(5)).toEqual([])
  })
})
