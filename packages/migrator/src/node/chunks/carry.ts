import type { PartTally } from '../../checkpoint/part-tally.ts'
import type { Carry } from '../../checkpoint/store.ts'
import type { ChunkRef, Manifest } from '../manifest.ts'
import type { ChunkWriter } from './chunk-writer.ts'

export interface CarryOptions {
  readonly base: Manifest
  /** Chunks that may be shared, by SHA-256. */
  readonly known: ReadonlyMap<string, ChunkRef>
  readonly chunkBytes: number
  readonly tally: PartTally
  readonly chunks: ChunkWriter
}

/** Takes chunks over from an earlier manifest, where they were cut as they are now and may be shared. */
export function carryOver({ base, known, chunkBytes, tally, chunks }: CarryOptions): Carry {
  const places = new Map(base.parts.map((part) => [part.name, placesOf(part.chunks)]))
  return {
    unitBytes: chunkBytes,
    async take(part, byteLength) {
      let taken = 0
      while (taken < byteLength) {
        const chunk = places.get(part)?.get(tally.seenOf(part))
        const isWhole = chunk?.byteLength === chunkBytes || chunk?.byteLength === byteLength - taken
        if (chunk === undefined || !isWhole || chunk.byteLength > byteLength - taken) return taken
        const shared = known.get(chunk.sha256)
        if (shared === undefined) return taken
        tally.add(part, chunk.byteLength)
        chunks.carry(part, shared)
        taken += chunk.byteLength
      }
      return taken
    },
  }
}

/** Chunks by where their first byte is in the part. */
function placesOf(chunks: readonly ChunkRef[]): ReadonlyMap<number, ChunkRef> {
  const places = new Map<number, ChunkRef>()
  let at = 0
  for (const chunk of chunks) {
    places.set(at, chunk)
    at += chunk.byteLength
  }
  return places
}
