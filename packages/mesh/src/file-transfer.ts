import { lstat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import { describeFile } from './bulk/describe.ts'
import { encodeManifest, manifestRef } from './bulk/manifest.ts'
import { pullFile } from './bulk/pull-file.ts'
import { BulkServer } from './bulk/server.ts'
import { fileSource, joinedSource, memorySource } from './bulk/source.ts'
import type { PeerConnection, PeerConnections } from './control/peer-connection.ts'
import { isFingerprint } from './identity/identity.ts'
import { asCount, asShape, asText } from './shape.ts'

export interface ReceivedFile {
  readonly name: string
  readonly path: string
  readonly byteLength: number
  readonly from: string
}

/**
 * Hands a file to a peer that receives files, and resolves to its length once the peer has all of it. The peer pulls it
 * over the link of the best connection, encrypted and checked by hash; broken off and sent again it goes on where it was.
 * Rejects with `EGPU_PEER_REFUSED` and the peer's reason, `EGPU_PEER_LOST`, or what the file system says.
 */
export async function sendFile(
  control: PeerConnections,
  peerId: string,
  path: string,
  { signal }: AbortOptions = {},
): Promise<number> {
  const manifest = await describeFile(path, { signal })
  const encoded = encodeManifest(manifest)
  const ref = manifestRef(encoded)
  await using server = await BulkServer.listen()
  await using offer = server.offer(joinedSource(memorySource(ref, encoded), await fileSource(path, manifest)))
  const [connection] = control.connections(peerId)
  if (connection === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, 'no connection to the peer is open')
  const takeBack = connection.handle(`file.ticket ${ref.id}`, () => offer.ticket())
  try {
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
  return control.handle('file.take', async (body, { connection, signal }) => {
    const { name, ref, address } = readTake(body)
    const path = join(folder, name)
    if (await exists(path)) throw refusal(`there is a ${name} already`)
    const { link } = connection
    const source = {
      address,
      links: [{ name: link.id, host: link.address, localAddress: link.localAddress }],
      ticket: (options: Required<AbortOptions>) => ticketOf(connection, ref.id, options),
    }
    const { byteLength } = await pullFile(source, ref, { to: path, signal })
    onFile({ name, path, byteLength, from: connection.peerId })
    return byteLength
  })
}

async function ticketOf(connection: PeerConnection, id: string, options: Required<AbortOptions>): Promise<string> {
  const ticket = asText(await connection.request(`file.ticket ${id}`, undefined, options))
  if (ticket === undefined) throw new EGpuError(EGpuErrorCode.MalformedData, 'the peer gave no ticket')
  return ticket
}

interface Take {
  readonly name: string
  readonly ref: { readonly id: string; readonly byteLength: number }
  readonly address: { readonly port: number; readonly certificate: string | undefined }
}

function readTake(body: unknown): Take {
  const shape = asShape(body)
  const [name, id] = [asText(shape?.['name'], 255), shape?.['id']]
  const byteLength = asCount(shape?.['manifestBytes'])
  const port = asCount(shape?.['port'], 65_535, 1)
  const certificate = shape?.['certificate']
  if (name === undefined || !isPlainName(name)) throw refusal('that is no plain file name')
  if (!isFingerprint(id) || byteLength === undefined || port === undefined || !isFingerprint(certificate))
    throw refusal('what is offered is not complete')
  return { name, ref: { id, byteLength }, address: { port, certificate } }
}

/** One name inside the folder: no path, nothing hidden, nothing a terminal or a shell would trip over. */
function isPlainName(name: string): boolean {
  return name !== '' && !name.startsWith('.') && !/[/\\:\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u.test(name)
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
