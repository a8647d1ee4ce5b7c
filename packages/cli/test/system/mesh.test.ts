import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Network, noNamespaces } from '../../../mesh/test/helpers/namespaces.ts'
import { makeSysfs } from '../../../mesh/test/helpers/sysfs.ts'

const bin = fileURLToPath(new URL('../../src/bin.ts', import.meta.url))
const node = ['--conditions=@egpu/source', '--import=tsx', bin]

/** Two hosts with one cable and nothing set up: what a person does with them, on the command line. */
describe.skipIf(noNamespaces !== undefined)('egpu mesh', () => {
  let network: Network
  const home = mkdtempSync(join(tmpdir(), 'egpu-cli-mesh-'))
  beforeAll(async () => {
    network = await Network.create({ hosts: ['a', 'b'] })
    await network.join({ host: 'a', interfaceName: 'thunderbolt0' }, { host: 'b', interfaceName: 'thunderbolt0' })
    for (const [host, other] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      mkdirSync(join(home, `${host}-sys`))
      const remote = { route: [1], uuid: `uuid-${other}`, name: other, interfaceName: 'thunderbolt0' }
      const lanes = { receive: [2, 20], transmit: [2, 20], service: { e2e: true } } as const
      makeSysfs(join(home, `${host}-sys`), {
        controllers: [{ uuid: `uuid-${host}`, remotes: [{ ...remote, ...lanes }] }],
      })
    }
  })
  afterAll(async () => {
    await network.close()
    rmSync(home, { recursive: true, force: true })
  })

  const options = (host: string): string[] => [
    '--json',
    `--directory=${join(home, host)}`,
    `--sysfs-root=${join(home, `${host}-sys`)}`,
  ]
  const egpu = async (host: string, ...args: readonly string[]): Promise<unknown> =>
    JSON.parse(await network.run(host, process.execPath, ...node, 'mesh', ...args, ...options(host))) as unknown
  const background = (
    host: string,
    ...args: readonly string[]
  ): { child: ChildProcess; lines: AsyncIterator<string> } => {
    const child = network.spawn(host, process.execPath, [...node, 'mesh', ...args, ...options(host)])
    if (child.stdout === null) throw new Error('no stdout')
    return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator]() }
  }
  const next = async <T>(lines: AsyncIterator<string>): Promise<T> => JSON.parse((await lines.next()).value) as T

  it('pairs two hosts by the code that one shows', async () => {
    const shown = background('a', 'pair')
    const { code, nodeId } = await next<{ code: string; nodeId: string }>(shown.lines)
    expect(code).toMatch(/^\d{4}-\d{4}$/)
    expect(await egpu('b', 'pair', code)).toMatchObject({ paired: { id: nodeId } })
    const { paired } = await next<{ paired: { id: string } }>(shown.lines)
    const peers = JSON.parse(readFileSync(join(home, 'a', 'peers.json'), 'utf8')) as { peers: { id: string }[] }
    expect(peers.peers.map(({ id }) => id)).toEqual([paired.id])
  })

  it('sends a file, byte for byte, and never over one that is there', async () => {
    const bytes = randomBytes(9_000_001)
    const file = join(home, 'state.bin')
    writeFileSync(file, bytes)
    mkdirSync(join(home, 'in'))
    const receiving = background('b', 'receive', join(home, 'in'))
    expect(await egpu('a', 'send', file)).toMatchObject({ bytes: bytes.length })
    expect(readFileSync(join(home, 'in', 'state.bin')).equals(bytes)).toBe(true)
    expect(await next(receiving.lines)).toMatchObject({ received: { name: 'state.bin', byteLength: bytes.length } })
    await expect(egpu('a', 'send', file)).rejects.toThrow(/there is a state.bin already/)
    expect(await egpu('a', 'status')).toMatchObject({ peers: [{ links: [{ interfaceName: 'thunderbolt0' }] }] })
    receiving.child.kill('SIGTERM')
  })
})
