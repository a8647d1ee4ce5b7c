import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeFile } from '../../src/bulk/describe.ts'
import { encodeManifest, manifestRef } from '../../src/bulk/manifest.ts'
import type { ChunkRef } from '../../src/bulk/chunk.ts'
import type { BulkLink } from '../../src/bulk/lane.ts'
import type { PullSource } from '../../src/bulk/pull.ts'
import { BulkServer } from '../../src/bulk/server.ts'
import type { BulkOffer, BulkServerOptions } from '../../src/bulk/server.ts'
import { fileSource, joinedSource, memorySource } from '../../src/bulk/source.ts'
import type { ChunkSource } from '../../src/bulk/source.ts'

export const loopback: BulkLink = { name: 'loopback', host: '127.0.0.1' }

export async function temporaryDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'egpu-mesh-bulk-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export async function randomFile(path: string, byteLength: number): Promise<Buffer> {
  const bytes = randomBytes(byteLength)
  await writeFile(path, bytes)
  return bytes
}

export interface Sender extends AsyncDisposable {
  readonly server: BulkServer
  readonly offer: BulkOffer
  /** The manifest of what is offered. */
  readonly ref: ChunkRef
  readonly source: PullSource
  readonly tickets: string[]
}

/** A server in this process that offers a file. */
export async function offerFile(
  path: string,
  { chunkBytes = 65_536, wrap = (source) => source, ...options }: OfferOptions = {},
): Promise<Sender> {
  const manifest = await describeFile(path, { chunkBytes })
  const encoded = encodeManifest(manifest)
  const ref = manifestRef(encoded)
  return offer(ref, wrap(joinedSource(memorySource(ref, encoded), await fileSource(path, manifest))), options)
}

export interface OfferOptions extends BulkServerOptions {
  readonly chunkBytes?: number | undefined
  /** To spoil what is sent. */
  readonly wrap?: ((source: ChunkSource) => ChunkSource) | undefined
}

export async function offer(ref: ChunkRef, chunks: ChunkSource, options: BulkServerOptions = {}): Promise<Sender> {
  const server = await BulkServer.listen({ host: '127.0.0.1', ...options })
  const given = server.offer(chunks)
  const tickets: string[] = []
  const ticket = async (): Promise<string> => {
    const token = given.ticket()
    tickets.push(token)
    return token
  }
  return {
    server,
    offer: given,
    ref,
    source: { address: server.address, links: [loopback], ticket },
    tickets,
    async [Symbol.asyncDispose]() {
      await given[Symbol.asyncDispose]()
      await server.close()
    },
  }
}
