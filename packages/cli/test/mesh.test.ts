import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadIdentity, loadPeers } from '@egpu/mesh'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

let folder: string
let keys: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'egpu-mesh-cli-'))
  keys = join(folder, 'keys')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function mesh(...args: readonly string[]): Promise<{ code: number; out: unknown; refusal: unknown }> {
  const terminal = recordingTerminal()
  const code = await runCli(['mesh', ...args, '--json', '--directory', keys], terminal)
  const [out, refusal] = [terminal.out, terminal.notes].map(([line]) => (line === undefined ? line : JSON.parse(line)))
  return { code, out, refusal: (refusal as { error?: unknown } | undefined)?.error }
}

const otherKey = 'ab'.repeat(32)

describe('egpu mesh', () => {
  it.each<readonly [readonly string[], RegExp]>([
    [['pair', '1234'], /a pairing code has eight digits/],
    [['pair', '１２３４-5678'], /a pairing code has eight digits/],
    [['pair', '1234-5678', '--fingerprint', otherKey], /a code or a fingerprint, not both/],
    [['pair', '--fingerprint', `${otherKey}xy`], /64 hex digits/],
    [['unpair', ''], /a name or the beginning of a key is wanted/],
    [['bench', ' '], /a name or the beginning of a key is wanted/],
    [['send', '.', ''], /a name or the beginning of a key is wanted/],
    [['send', '.'], /\. is no file/],
    [['send', '/dev/null'], /\/dev\/null is no file/],
    [['bench', '--megabytes', '1001'], /no host takes more than 1000/],
  ])('%j is a command line that is wrong, said before anything is opened', async (args, message) => {
    const { code, out, refusal } = await mesh(...args)
    expect([code, out]).toEqual([2, undefined])
    expect(refusal).toEqual({ code: 'EGPU_USAGE', message: expect.stringMatching(message) })
    expect(readdirSync(folder)).toEqual([])
  })

  it.each<readonly [readonly string[], string]>([
    [['send', 'nothing.bin'], 'there is no nothing.bin; check the spelling'],
    [['receive', 'nowhere'], 'there is no nowhere; check the spelling'],
    [['status', '--sysfs-root', '/nowhere'], 'there is no /nowhere; check the spelling'],
  ])('%j says what is not there, and does not wait for it', async (args, message) => {
    expect(await mesh(...args)).toMatchObject({ code: 1, out: undefined, refusal: { code: 'ENOENT', message } })
  })

  it('takes a directory for its keys that is a file for what it is', async () => {
    writeFileSync(keys, '')
    const refusal = { code: 'EGPU_MALFORMED_DATA', message: expect.stringContaining(`${keys} is no directory`) }
    for (const command of ['status', 'pair', 'bench', 'receive'])
      expect(await mesh(command)).toEqual({ code: 1, out: undefined, refusal })
    expect(await mesh('unpair', 'b')).toEqual({ code: 1, out: undefined, refusal })
  })

  it('trusts a fingerprint with or without separators, and not its own', async () => {
    const { nodeId } = loadIdentity(keys)
    const written = otherKey.toUpperCase().replaceAll(/(..)(?=.)/g, '$1:')
    expect(await mesh('pair', '--fingerprint', written)).toMatchObject({
      code: 0,
      out: { paired: { id: otherKey }, nodeId },
    })
    expect(loadPeers(keys).map(({ id }) => id)).toEqual([otherKey])
    const own = await mesh('pair', '--fingerprint', nodeId)
    expect(own).toMatchObject({ code: 2, refusal: { message: expect.stringMatching(/fingerprint of this host/) } })
    expect(await mesh('unpair', otherKey.slice(0, 4))).toMatchObject({ code: 0, out: { unpaired: { id: otherKey } } })
    expect(await mesh('unpair', otherKey)).toMatchObject({ code: 1, refusal: { code: 'EGPU_PEER_LOST' } })
  })

  it('tells a host that is not here from one that was never paired', async () => {
    const lost = async (...args: readonly string[]): Promise<unknown> => (await mesh(...args)).refusal
    const refused = (message: RegExp): unknown => ({ code: 'EGPU_PEER_LOST', message: expect.stringMatching(message) })
    expect(await lost('bench')).toEqual(refused(/^this host is paired with nobody; egpu mesh pair does that$/))
    await mesh('pair', '--fingerprint', otherKey)
    const notHere = refused(
      new RegExp(`^${otherKey.slice(0, 16)}: paired, and not here\\. It has to run egpu mesh receive`),
    )
    expect(await lost('bench')).toEqual(notHere)
    expect(await lost('send', join(keys, 'identity.json'))).toEqual(notHere)
    expect(await lost('bench', 'tower')).toEqual(refused(/^this host is paired with no host called tower/))
  })
})
