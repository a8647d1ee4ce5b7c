import { createHash } from 'node:crypto'
import { asChunkRef, isChunkId, malformed, mostChunkBytes } from './chunk.ts'
import type { ChunkRef } from './chunk.ts'

/** What a file, or anything else with a length, is made of: chunks of one size, the last one shorter. */
export interface BulkManifest {
  readonly byteLength: number
  readonly chunkBytes: number
  /** SHA-256 of each chunk, in order. */
  readonly chunks: readonly string[]
}

/** Larger chunks keep a fast cable busy with fewer requests; smaller ones find more that need not travel. */
export const defaultChunkBytes: number = 2 ** 22

/** A manifest travels as a chunk; at 4 MiB a chunk, this one describes 4 TiB. */
const mostManifestBytes = mostChunkBytes

export function encodeManifest(manifest: BulkManifest): Buffer {
  return Buffer.from(JSON.stringify(manifest))
}

/** The chunk that holds the manifest itself. */
export function manifestRef(encoded: Uint8Array): ChunkRef {
  if (encoded.byteLength > mostManifestBytes) {
    throw new TypeError(`a manifest of ${encoded.byteLength} bytes is too long to be sent: use larger chunks`)
  }
  return { id: createHash('sha256').update(encoded).digest('hex'), byteLength: encoded.byteLength }
}

/** Rejects what cannot be with `EGPU_MALFORMED_DATA`: its hash says who wrote it, not that he meant well. */
export function decodeManifest(bytes: Uint8Array): BulkManifest {
  let value: Partial<Record<keyof BulkManifest, unknown>> | null
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')) as typeof value
  } catch {
    throw malformed('the manifest cannot be read')
  }
  const { byteLength, chunkBytes, chunks } = value ?? {}
  if (!Number.isSafeInteger(byteLength) || (byteLength as number) < 0) {
    throw malformed(`the manifest says that there are ${String(byteLength)} bytes`)
  }
  if (!Number.isSafeInteger(chunkBytes) || (chunkBytes as number) < 1 || (chunkBytes as number) > mostChunkBytes) {
    throw malformed(`the manifest has chunks of ${String(chunkBytes)} bytes: 1 to ${mostChunkBytes} are allowed`)
  }
  if (!Array.isArray(chunks) || !chunks.every(isChunkId)) throw malformed('the manifest has chunks without a SHA-256')
  const manifest = { byteLength: byteLength as number, chunkBytes: chunkBytes as number, chunks }
  const expected = Math.ceil(manifest.byteLength / manifest.chunkBytes)
  if (chunks.length !== expected) {
    throw malformed(`the manifest has ${chunks.length} chunks where its length makes ${expected}`)
  }
  chunkRefs(manifest)
  return manifest
}

/** One chunk and where it goes, in bytes from the start. */
export interface PlacedChunk extends ChunkRef {
  readonly offset: number
}

/** The chunks in order. Equal content that says it has two lengths is refused. */
export function chunkRefs({ byteLength, chunkBytes, chunks }: BulkManifest): readonly PlacedChunk[] {
  const lengths = new Map<string, number>()
  return chunks.map((id, index) => {
    const offset = index * chunkBytes
    const ref = asChunkRef(id, Math.min(chunkBytes, byteLength - offset))
    const known = lengths.get(id) ?? ref.byteLength
    if (known !== ref.byteLength) throw malformed(`the manifest gives chunk ${id} two lengths`)
    lengths.set(id, known)
    return { ...ref, offset }
  })
}
