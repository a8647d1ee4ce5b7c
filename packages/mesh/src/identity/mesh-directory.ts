import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { makeDirectorySync } from '@egpu/migrator/node'
import { assertKind, text } from '../arguments.ts'
import { plainText } from '../text.ts'
import { machineTag } from './host-tag.ts'
import { identityFromPem, isFingerprint, newPrivateKey, identityOf, type MeshIdentity } from './identity.ts'

/** A host this one trusts, since a person paired the two. */
export interface PairedPeer {
  readonly id: string
  /** What it called itself when they were paired. */
  readonly name: string
  readonly pairedAt: string
}

/** `EGPU_MESH_DIR`, else `egpu/mesh` under XDG_CONFIG_HOME or, where that is no absolute path, `~/.config`. */
export function defaultMeshDirectory(env: NodeJS.ProcessEnv = process.env): string {
  const { EGPU_MESH_DIR: own, XDG_CONFIG_HOME: config = '' } = env
  if (own !== undefined && own !== '') return own
  return join(isAbsolute(config) ? config : join(homedir(), '.config'), 'egpu', 'mesh')
}

/**
 * This host's key, made at the first call and readable by its owner alone.
 * Throws `EGPU_IDENTITY_COPIED` when the folder was copied from another machine, `EGPU_PERMISSION_DENIED` when this user may
 * not use it, `EGPU_MALFORMED_DATA` when it is none or what is in it cannot be read.
 */
export function loadIdentity(directory: string, machine: string = machineTag()): MeshIdentity {
  assertKind('directory', directory, text)
  const path = join(directory, 'identity.json')
  const stored = readJson(path)
  if (stored === undefined) {
    const identity = identityOf(newPrivateKey())
    const isFirst = createJson(directory, 'identity.json', { version: 1, machine, privateKey: identity.privateKeyPem })
    // Another program of this host made one at the same moment: there is to be one only.
    return isFirst ? identity : loadIdentity(directory, machine)
  }
  const { machine: home, privateKey } = stored as { machine?: unknown; privateKey?: unknown }
  if (typeof privateKey !== 'string' || typeof home !== 'string')
    throw new EGpuError(EGpuErrorCode.MalformedData, `${path} is not an identity; remove it to get a new one`)
  if (home !== machine)
    throw new EGpuError(
      EGpuErrorCode.IdentityCopied,
      `${path} was made on another machine; two hosts with one key cannot be told apart. Remove it and pair this host anew`,
    )
  try {
    return identityFromPem(privateKey)
  } catch (cause) {
    throw new EGpuError(EGpuErrorCode.MalformedData, `the key in ${path} cannot be read; remove it to get a new one`, {
      cause,
    })
  }
}

/**
 * The paired hosts. Read anew at each call, so that a pairing in another process counts at once. Throws like `loadIdentity`
 * where the folder cannot be used.
 */
export function loadPeers(directory: string): readonly PairedPeer[] {
  assertKind('directory', directory, text)
  const path = join(directory, 'peers.json')
  const stored = readJson(path)
  if (stored === undefined) return []
  const { peers } = stored as { peers?: unknown }
  if (!Array.isArray(peers) || !peers.every(isPairedPeer))
    throw new EGpuError(EGpuErrorCode.MalformedData, `${path} is not a list of peers; nobody is trusted until it is`)
  return peers
}

export function savePeer(directory: string, peer: PairedPeer): void {
  const others = loadPeers(directory).filter(({ id }) => id !== peer.id)
  writeJson(directory, 'peers.json', { version: 1, peers: [...others, { ...peer, name: plainText(peer.name) }] })
}

export function removePeer(directory: string, id: string): boolean {
  const peers = loadPeers(directory)
  const rest = peers.filter((peer) => peer.id !== id)
  if (rest.length < peers.length) writeJson(directory, 'peers.json', { version: 1, peers: rest })
  return rest.length < peers.length
}

function isPairedPeer(value: unknown): value is PairedPeer {
  if (typeof value !== 'object' || value === null) return false
  const { id, name, pairedAt } = value as { id?: unknown; name?: unknown; pairedAt?: unknown }
  return isFingerprint(id) && typeof name === 'string' && typeof pairedAt === 'string'
}

function readJson(path: string): object | undefined {
  let stored: string
  try {
    stored = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw unusable(dirname(path), error)
  }
  try {
    const value: unknown = JSON.parse(stored)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

/** Whole or not at all: a reader never sees half a file. */
function writeJson(directory: string, name: string, value: object): void {
  writeFresh(directory, name, value, (fresh) => renameSync(fresh, join(directory, name)))
}

/** Like `writeJson`, but leaves what is there already. Whether there was nothing. */
function createJson(directory: string, name: string, value: object): boolean {
  return writeFresh(directory, name, value, (fresh) => {
    try {
      linkSync(fresh, join(directory, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      // A file system without hard links.
      renameSync(fresh, join(directory, name))
    }
    return true
  })
}

function writeFresh<T>(directory: string, name: string, value: object, place: (fresh: string) => T): T {
  const fresh = join(directory, `.${name}.${process.pid}.${randomBytes(4).toString('hex')}`)
  try {
    makeDirectorySync(directory, 0o700)
    writeFileSync(fresh, `${JSON.stringify(value, undefined, 2)}\n`, { mode: 0o600 })
    chmodSync(fresh, 0o600)
    return place(fresh)
  } catch (error) {
    throw unusable(directory, error)
  } finally {
    remove(fresh)
  }
}

/** What is not there, or cannot be, needs no removing. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // What went wrong before is the reason to tell.
  }
}

const choose = 'choose another one (EGPU_MESH_DIR, or the option `directory`)'

/** What the system says of the folder, as something to act on. A full or a broken disk is told as it is. */
function unusable(directory: string, cause: unknown): unknown {
  const { code, path = directory } = cause as NodeJS.ErrnoException
  const refused = (why: string): EGpuError =>
    new EGpuError(EGpuErrorCode.PermissionDenied, `the mesh directory ${directory} ${why}`, { cause })
  if (code === 'EACCES' || code === 'EPERM')
    return refused(`cannot be used by this user (${path}): make it theirs, with mode 700, or ${choose}`)
  if (code === 'EROFS')
    return refused(`is on a read-only file system, and this host's key is to be kept there; ${choose}`)
  if (code === 'ENOENT') return refused(`cannot be made; ${choose}`)
  if (code === 'ENOTDIR' || code === 'EISDIR' || code === 'EEXIST' || code === 'ELOOP') {
    const message = `the mesh directory ${directory} is no directory, or what belongs into it is no file (${path}); ${choose}`
    return new EGpuError(EGpuErrorCode.MalformedData, message, { cause })
  }
  return cause
}
