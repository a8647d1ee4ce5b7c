import { open } from 'node:fs/promises'
import type { ChunkRef } from './chunk.ts'
import { chunkRefs } from './manifest.ts'
import type { BulkManifest, PlacedChunk } from './manifest.ts'

/** Gives out chunks by name. What it does not have, nobody can ask it for. */
export interface ChunkSource extends AsyncDisposable {
  /** Length of a chunk, `undefined` when it is not to be had here. */
  lengthOf(id: string): number | undefined
  /** Fills `into`, which is as long as the chunk. Rejects when its bytes cannot be read (any more). */
  read(id: string, into: Uint8Array): Promise<void>
}

/** The chunks of a file. The file stays open until it is disposed. */
export async function fileSource(path: string, manifest: BulkManifest): Promise<ChunkSource> {
  const file = await open(path, 'r')
  const places = new Map<string, PlacedChunk>(chunkRefs(manifest).map((chunk) => [chunk.id, chunk]))
  let isClosed = false
  return {
    lengthOf: (id) => places.get(id)?.byteLength,
    async read(id, into) {
      const offset = places.get(id)?.offset ?? 0
      for (let filled = 0; filled < into.byteLength;) {
        const { bytesRead } = await file.read(into, filled, into.byteLength - filled, offset + filled)
        if (bytesRead === 0) throw new Error(`${path} got shorter since it was described`)
        filled += bytesRead
      }
    },
    async [Symbol.asyncDispose]() {
      if (isClosed) return
      isClosed = true
      await file.close()
    },
  }
}

/** One chunk in memory. */
export function memorySource(ref: ChunkRef, bytes: Uint8Array): ChunkSource {
  return {
    lengthOf: (id) => (id === ref.id ? ref.byteLength : undefined),
    async read(_, into) {
      into.set(bytes)
    },
    async [Symbol.asyncDispose]() {},
  }
}

/** What is not in the first is looked for in the next. Disposes all of them. */
export function joinedSource(...sources: readonly ChunkSource[]): ChunkSource {
  const holderOf = (id: string): ChunkSource | undefined => sources.find((source) => source.lengthOf(id) !== undefined)
  return {
    lengthOf: (id) => holderOf(id)?.lengthOf(id),
    async read(id, into) {
      await holderOf(id)?.read(id, into)
    },
    async [Symbol.asyncDispose]() {
      for (const source of sources) await source[Symbol.asyncDispose]()
    },
  }
}
