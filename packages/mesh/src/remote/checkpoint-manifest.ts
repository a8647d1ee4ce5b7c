import type { StatePart } from '@egpu/core'
import { asChunkRef, malformed, mostChunkBytes } from '../bulk/chunk.ts'
import type { ChunkRef } from '../bulk/chunk.ts'

/** A checkpoint as chunks known by content. Chunks do not reach from one part into the next. */
export interface CheckpointManifest {
  readonly workloadId: string
  readonly progress: number
  readonly chunkBytes: number
  readonly parts: readonly (StatePart & { readonly chunks: readonly string[] })[]
}

/** Small enough that a state that changed here and there does not travel whole. */
export const checkpointChunkBytes: number = 2 ** 20

const mostParts = 100_000

/** One chunk of a checkpoint, in its place. */
export interface CheckpointChunk extends ChunkRef {
  readonly part: string
}

/** All chunks in the order of the state. */
export function checkpointChunks({ parts, chunkBytes }: CheckpointManifest): readonly CheckpointChunk[] {
  return parts.flatMap(({ name, byteLength, chunks }) =>
    chunks.map((id, index) => ({
      ...asChunkRef(id, Math.min(chunkBytes, byteLength - index * chunkBytes)),
      part: name,
    })),
  )
}

export function encodeCheckpointManifest(manifest: CheckpointManifest): Buffer {
  return Buffer.from(JSON.stringify(manifest))
}

/** `EGPU_MALFORMED_DATA` says what cannot be. */
export function decodeCheckpointManifest(
  bytes: Uint8Array,
  expected: { readonly workloadId: string },
): CheckpointManifest {
  let value: Partial<Record<keyof CheckpointManifest, unknown>> | null
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8')) as typeof value
  } catch {
    throw malformed('the manifest of a checkpoint cannot be read')
  }
  const { workloadId, progress, chunkBytes, parts } = value ?? {}
  if (workloadId !== expected.workloadId) throw malformed(`a checkpoint of ${String(workloadId)} came instead`)
  if (typeof progress !== 'number' || !Number.isFinite(progress)) throw malformed('a checkpoint says no progress')
  if (!Number.isSafeInteger(chunkBytes) || (chunkBytes as number) < 1 || (chunkBytes as number) > mostChunkBytes) {
    throw malformed(`a checkpoint has chunks of ${String(chunkBytes)} bytes`)
  }
  if (!Array.isArray(parts) || parts.length > mostParts) throw malformed('a checkpoint lists no parts')
  const manifest: CheckpointManifest = {
    workloadId: expected.workloadId,
    progress,
    chunkBytes: chunkBytes as number,
    parts: parts.map((part: unknown) => readPart(part, chunkBytes as number)),
  }
  if (new Set(manifest.parts.map(({ name }) => name)).size !== parts.length) throw malformed('a part is there twice')
  checkpointChunks(manifest)
  return manifest
}

function readPart(value: unknown, chunkBytes: number): CheckpointManifest['parts'][number] {
  const { name, byteLength, chunks } = (value ?? {}) as Partial<Record<'name' | 'byteLength' | 'chunks', unknown>>
  if (typeof name !== 'string') throw malformed('a part of a checkpoint has no name')
  if (!Number.isSafeInteger(byteLength) || (byteLength as number) < 0) {
    throw malformed(`a part of a checkpoint has ${String(byteLength)} bytes`)
  }
  if (!Array.isArray(chunks) || chunks.length !== Math.ceil((byteLength as number) / chunkBytes)) {
    throw malformed(`the chunks of a part do not make up its ${String(byteLength)} bytes`)
  }
  return { name, byteLength: byteLength as number, chunks: chunks as string[] }
}
