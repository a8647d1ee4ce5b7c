import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { X509Certificate } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { EGpuErrorCode } from '@egpu/core'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { fingerprint, temporaryIdentity } from '../../src/identity/identity.ts'
import {
  defaultMeshDirectory,
  loadIdentity,
  loadPeers,
  removePeer,
  savePeer,
} from '../../src/identity/mesh-directory.ts'
import { folder } from '../helpers/folder.ts'
import { noNamespaces } from '../helpers/namespaces.ts'

const peer = (id: string) => ({ id, name: 'b', pairedAt: '2026-11-30T00:00:00.000Z' })
const noOtherUser =
  process.getuid?.() === 0 ? undefined : 'does not apply to this rig: only root can act for another user'

function asNobody(work: () => void): void {
  process.seteuid?.(65_534)
  try {
    work()
  } finally {
    process.seteuid?.(0)
  }
}

const [one, two] = ['1'.repeat(64), '2'.repeat(64)]

describe('the folder of a mesh', () => {
  it('keeps one key, readable by its owner alone', () => {
    const directory = join(folder(), 'new')
    const { nodeId } = loadIdentity(directory, 'machine')
    expect(loadIdentity(directory, 'machine').nodeId).toBe(nodeId)
    expect(statSync(join(directory, 'identity.json')).mode & 0o777).toBe(0o600)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
  })

  it('keeps one key also where several programs begin at the same moment', async () => {
    const home = folder()
    const outfile = join(home, 'first-start.mjs')
    await build({
      entryPoints: [fileURLToPath(new URL('./first-start.ts', import.meta.url))],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      conditions: ['@egpu/source'],
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)" },
      logLevel: 'error',
    })
    const [threads, rounds] = [2, 20]
    const gate = new Int32Array(new SharedArrayBuffer(4 * rounds))
    const workers = Array.from({ length: threads }, () => new Worker(outfile, { workerData: { gate, home, threads } }))
    const ids = await Promise.all(
      workers.map(async (worker) => {
        const [known] = (await once(worker, 'message')) as [readonly string[]]
        return known
      }),
    )
    for (let round = 0; round < rounds; round += 1) {
      const { nodeId } = loadIdentity(join(home, String(round)), 'machine')
      expect(ids.map((known) => known[round])).toEqual(Array.from({ length: threads }, () => nodeId))
    }
  })

  it('copied to another machine is noticed before anything is said', () => {
    const directory = folder()
    loadIdentity(directory, 'first')
    const copy = join(folder(), 'copy')
    cpSync(directory, copy, { recursive: true })
    expect(() => loadIdentity(copy, 'second')).toThrow(/was made on another machine/)
  })

  it.each(['', '{', '[]', '{"machine":"m"}', '{"machine":"m","privateKey":"nonsense"}'])(
    'with %j as identity is an error and is not overwritten',
    (text) => {
      const directory = folder()
      writeFileSync(join(directory, 'identity.json'), text)
      expect(() => loadIdentity(directory, 'm')).toThrow(expect.objectContaining({ code: 'EGPU_MALFORMED_DATA' }))
      expect(readFileSync(join(directory, 'identity.json'), 'utf8')).toBe(text)
    },
  )

  it('remembers, renews and forgets peers', () => {
    const directory = folder()
    savePeer(directory, peer(one))
    savePeer(directory, peer(two))
    savePeer(directory, { ...peer(one), name: 'renamed' })
    expect(loadPeers(directory).map(({ id, name }) => [id, name])).toEqual([
      [two, 'b'],
      [one, 'renamed'],
    ])
    expect([removePeer(directory, one), removePeer(directory, one)]).toEqual([true, false])
    expect(loadPeers(directory)).toHaveLength(1)
  })

  it('with a list of peers that cannot be read trusts nobody', () => {
    const directory = folder()
    writeFileSync(join(directory, 'peers.json'), '{"peers":[{"id":"short"}]}')
    expect(() => loadPeers(directory)).toThrow(/nobody is trusted until it is/)
  })

  it('that is a file, or below one, is said to be none', () => {
    const path = join(folder(), 'file')
    writeFileSync(path, '')
    for (const directory of [path, join(path, 'mesh')]) {
      const refused = {
        code: EGpuErrorCode.MalformedData,
        message: expect.stringContaining(`${directory} is no directory`),
      }
      expect(() => loadIdentity(directory, 'm')).toThrow(expect.objectContaining(refused))
      expect(() => loadPeers(directory)).toThrow(expect.objectContaining(refused))
      expect(() => savePeer(directory, peer(one))).toThrow(expect.objectContaining(refused))
    }
    expect(readFileSync(path, 'utf8')).toBe('')
  })

  it('with a directory in place of the key names what is in the way', () => {
    const directory = folder()
    mkdirSync(join(directory, 'identity.json'))
    expect(() => loadIdentity(directory, 'm')).toThrow(/is no file/)
  })

  it('that belongs to somebody else says so, and how to get on', ({ skip }) => {
    skip(noOtherUser !== undefined, noOtherUser)
    const directory = folder()
    loadIdentity(directory, 'm')
    const refused = { code: EGpuErrorCode.PermissionDenied, message: expect.stringContaining('EGPU_MESH_DIR') }
    asNobody(() => {
      expect(() => loadIdentity(directory, 'm')).toThrow(expect.objectContaining(refused))
      expect(() => loadPeers(directory)).toThrow(expect.objectContaining(refused))
    })
    // To be looked into, and not to be written to.
    chmodSync(directory, 0o755)
    asNobody(() => expect(() => savePeer(directory, peer(one))).toThrow(expect.objectContaining(refused)))
  })

  it('on a read-only file system says so, and how to get on', ({ skip }) => {
    skip(noNamespaces !== undefined, noNamespaces)
    const directory = folder()
    const source = fileURLToPath(new URL('../../src/identity/mesh-directory.ts', import.meta.url))
    const program = `import(${JSON.stringify(source)}).then(({ loadIdentity }) => loadIdentity(${JSON.stringify(join(directory, 'mesh'))})).catch(({ code, message }) => console.log(code, message))`
    const mounted = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
    const node = [process.execPath, '--conditions=@egpu/source', '--import=tsx', '-e', program]
    const { stdout } = spawnSync('unshare', ['-m', 'sh', '-c', mounted, directory, ...node], { encoding: 'utf8' })
    expect(stdout).toMatch(/^EGPU_PERMISSION_DENIED the mesh directory .* is on a read-only file system.*EGPU_MESH_DIR/)
  })
})

describe('the folder of a mesh, by default', () => {
  it.each([
    [{ EGPU_MESH_DIR: '/own', XDG_CONFIG_HOME: '/config' }, '/own'],
    [{ EGPU_MESH_DIR: '', XDG_CONFIG_HOME: '/config' }, '/config/egpu/mesh'],
    [{}, join(homedir(), '.config/egpu/mesh')],
    [{ XDG_CONFIG_HOME: '' }, join(homedir(), '.config/egpu/mesh')],
    [{ XDG_CONFIG_HOME: 'here' }, join(homedir(), '.config/egpu/mesh')],
  ])('with %j is %s', (env, directory) => {
    expect(defaultMeshDirectory(env)).toBe(directory)
  })

  it('below /proc is refused at once', () => {
    expect(() => loadIdentity('/proc/nowhere/mesh', 'machine')).toThrow(
      expect.objectContaining({
        code: EGpuErrorCode.PermissionDenied,
        message: expect.stringContaining('/proc/nowhere/mesh cannot be made'),
      }),
    )
  })
})

describe('a certificate', () => {
  it('is an X.509 certificate that its own key signed, known by the key and not by the wrapping', () => {
    const identity = temporaryIdentity()
    const certificate = new X509Certificate(identity.certificatePem)
    expect(certificate.verify(certificate.publicKey)).toBe(true)
    expect(fingerprint(certificate.publicKey)).toBe(identity.nodeId)
    expect(Date.parse(certificate.validFrom)).toBeLessThan(Date.now() - 60_000)
  })
})
