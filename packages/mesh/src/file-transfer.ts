import { lstat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import { abort, assertKind, assertOptions, callback, connections, nodeId, text } from './arguments.ts'
import { bulkLink, carriers } from './bulk/carriers.ts'
import { describeFile } from './bulk/describe.ts'
import type { BulkLink } from './bulk/lane.ts'
import { mostChunkBytes } from './bulk/chunk.ts'
import { encodeManifest, manifestRef } from './bulk/manifest.ts'
import { pullFile } from './bulk/pull-file.ts'
import { BulkServer, type BulkAddress } from './bulk/server.ts'
import { fileSource, joinedSource, memorySource } from './bulk/source.ts'
import type { PeerConnection, PeerConnections, RequestContext } from './control/peer-connection.ts'
import { isFingerprint } from './identity/identity.ts'
import { asCount, asShape, asText } from './shape.ts'

export interface ReceivedFile {
  readonly name: string
  readonly path: string
  readonly byteLength: number
  readonly from: string
  /** How much of it came over which link; what was here already came over none. */
  readonly bytesPerLink: Readonly<Record<string, number>>
}

/** Files that peers have named links for and not begun to send. */
const mostPrepared = 64

/**
 * Hands a file to a peer that receives files, and resolves to its length once the peer has all of it. The peer pulls it
 * over all cables at once (or all networks, without a cable), encrypted and checked by hash; broken off and sent again it goes on where it was.
 * Rejects with `EGPU_PEER_REFUSED` and the peer's reason, `EGPU_PEER_LOST`, or what the file system says.
 */
export async function sendFile(
  control: PeerConnections,
  peerId: string,
  path: string,
  options: AbortOptions = {},
): Promise<number> {
  assertKind('control', control, connections)
  assertKind('peerId', peerId, nodeId)
  assertKind('path', path, text)
  assertOptions('the options of sendFile', options, abort)
  const { signal } = options
  const manifest = await describeFile(path, { signal })
  const encoded = encodeManifest(manifest)
  const ref = manifestRef(encoded)
  await using server = await BulkServer.listen()
  await using offer = server.offer(joinedSource(memorySource(ref, encoded), await fileSource(path, manifest)))
  const [connection, ...others] = carriers(control.connections(peerId))
  if (connection === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, 'no connection to the peer is open')
  const takeBack = connection.handle(`file.ticket ${ref.id}`, () => offer.ticket())
  try {
    // Each link is named over itself: only its two ends know by which address the other is reached there.
    await Promise.all(
      others.map((other) =>
        other.request('file.link', { id: ref.id }, { signal }).catch(() => signal?.throwIfAborted()),
      ),
    )
    const body = { name: basename(path), id: ref.id, manifestBytes: ref.byteLength, ...server.address }
    await connection.request('file.take', body, { signal })
    return manifest.byteLength
  } finally {
    takeBack()
  }
}

/** Takes files of paired peers into `folder` from now on, under the name the peer gives and never over an existing one. */
export function receiveFiles(
  control: PeerConnections,
  folder: string,
  onFile: (file: ReceivedFile) => void,
): () => void {
  assertKind('control', control, connections)
  assertKind('folder', folder, text)
  assertKind('onFile', onFile, callback)
  const prepared = new Map<string, BulkLink[]>()
  const coming = new Map<string, Promise<number>>()
  const receive = async ({ name, ref, address }: Take, { connection, signal }: RequestContext): Promise<number> => {
    const key = `${connection.peerId} ${ref.id}`
    const others = (prepared.get(key) ?? []).filter((other) => other.name !== connection.link.id)
    prepared.delete(key)
    const path = join(folder, name)
    if (await exists(path)) throw refusal(`there is a ${name} already`)
    const source = {
      address,
      links: [bulkLink(connection.link), ...others],
      ticket: (options: Required<AbortOptions>) => ticketOf(connection, ref.id, options),
    }
    const { byteLength, perLink } = await pullFile(source, ref, { to: path, signal })
    onFile({ name, path, byteLength, from: connection.peerId, bytesPerLink: Object.fromEntries(perLink) })
    return byteLength
  }
  const unhandle = [
    control.handle('file.link', (body, { connection: { peerId, link } }) => {
      const id = asShape(body)?.['id']
      if (!isFingerprint(id)) throw refusal('what is offered is not complete')
      const key = `${peerId} ${id}`
      const [oldest] = prepared.keys()
      if (oldest !== undefined && prepared.size >= mostPrepared) prepared.delete(oldest)
      const links = (prepared.get(key) ?? []).filter(({ name }) => name !== link.id)
      prepared.set(key, [...links, bulkLink(link)])
      return true
    }),
    control.handle('file.take', (body, context) => {
      const take = readTake(body)
      // One of a name after the other: two at once would both find it free.
      const before = coming.get(take.name) ?? Promise.resolve()
      const turn = before.catch(() => undefined).then(() => receive(take, context))
      coming.set(take.name, turn)
      const forget = (): void => {
        if (coming.get(take.name) === turn) coming.delete(take.name)
      }
      turn.then(forget, forget)
      return turn
    }),
  ]
  return () => {
    for (const each of unhandle) each()
  }
}

async function ticketOf(connection: PeerConnection, id: string, options: Required<AbortOptions>): Promise<string> {
  const ticket = asText(await connection.request(`file.ticket ${id}`, undefined, options))
  if (ticket === undefined) throw new EGpuError(EGpuErrorCode.MalformedData, 'the peer gave no ticket')
  return ticket
}

interface Take {
  readonly name: string
  readonly ref: { readonly id: string; readonly byteLength: number }
  readonly address: BulkAddress
}

function readTake(body: unknown): Take {
  const shape = asShape(body)
  const [name, id] = [asText(shape?.['name'], 255), shape?.['id']]
  const byteLength = asCount(shape?.['manifestBytes'], mostChunkBytes, 1)
  const port = asCount(shape?.['port'], 65_535, 1)
  const certificate = shape?.['certificate']
  if (name === undefined || !isPlainName(name)) throw refusal('that is no plain file name')
  if (Buffer.byteLength(name) > mostNameBytes) throw refusal(`its name is longer than ${mostNameBytes} bytes`)
  if (!isFingerprint(id) || byteLength === undefined || port === undefined || !isFingerprint(certificate))
    throw refusal('what is offered is not complete')
  return {
    name,
    ref: { id, byteLength },
    address: { port, certificate, version: asCount(shape?.['version'], undefined, 1) },
  }
}

/** Longer ones leave no room for what an unfinished file has behind its name. */
const mostNameBytes = 230

/** One name inside the folder: no path, nothing hidden or unseen, nothing a terminal or a shell would trip over. */
function isPlainName(name: string): boolean {
  const isSeen = /[^\p{Cf}\p{Z}]/u.test(name) && /^[^.~-]/.test(name)
  return isSeen && !/[/\\:\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u.test(name)
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

function refusal(reason: string): EGpuError {
  return new EGpuError(EGpuErrorCode.PeerRefused, `the file is refused: ${reason}`)
}
