import { mkdirSync, readFileSync, statSync, writeFileSync, cpSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { X509Certificate } from 'node:crypto'
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

const peer = (id: string) => ({ id, name: 'b', pairedAt: '2026-11-30T00:00:00.000Z' })
const [one, two] = ['1'.repeat(64), '2'.repeat(64)]

describe('the folder of a mesh', () => {
  it('keeps one key, readable by its owner alone', () => {
    const directory = join(folder(), 'new')
    const { nodeId } = loadIdentity(directory, 'machine')
    expect(loadIdentity(directory, 'machine').nodeId).toBe(nodeId)
    expect(statSync(join(directory, 'identity.json')).mode & 0o777).toBe(0o600)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
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

  it('that is a file is an error of the operating system', () => {
    const path = join(folder(), 'file')
    writeFileSync(path, '')
    expect(() => loadIdentity(path, 'm')).toThrow(/ENOTDIR/)
    mkdirSync(join(folder(), 'x'))
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

  it('below /proc is an error of the operating system, at once', () => {
    expect(() => loadIdentity('/proc/nowhere/mesh', 'machine')).toThrow(expect.objectContaining({ code: 'ENOENT' }))
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
