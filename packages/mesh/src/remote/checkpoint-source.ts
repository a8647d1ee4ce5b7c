import type { SavedState } from '@egpu/core'
import type { ChunkSource } from '../bulk/source.ts'
import { checkpointChunks } from './checkpoint-manifest.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'
import { StateReader } from './state-chunks.ts'

/** Gives out a checkpoint of any store chunk by chunk, without a copy of it anywhere. */
export function checkpointSource(state: SavedState, manifest: CheckpointManifest): ChunkSource {
  const places = new Map<string, { readonly index: number; readonly byteLength: number }>()
  for (const [index, { id, byteLength }] of checkpointChunks(manifest).entries()) {
    if (!places.has(id)) places.set(id, { index, byteLength })
  }
  const reader = new StateReader(state, manifest.chunkBytes)
  return {
    lengthOf: (id) => places.get(id)?.byteLength,
    read: (id, into) => reader.read(places.get(id)?.index ?? 0, into),
    [Symbol.asyncDispose]: () => reader.close(),
  }
}
