import { checkpointChunks } from './checkpoint-manifest.ts'
import type { CheckpointChunk, CheckpointManifest } from './checkpoint-manifest.ts'

/** Content that occurs again is kept in memory up to this much, and pulled again beyond. */
const mostHeldBytes = 2 ** 26

/** How one chunk of the new checkpoint comes about. */
export interface Step extends CheckpointChunk {
  readonly from: 'known' | 'held' | 'sender'
  /** In the known checkpoint. */
  readonly index: number
  /** Occurs again. */
  readonly isKept: boolean
}

/** The chunks of a checkpoint in order, each from where it is had at the least cost. */
export function planSteps(chunks: readonly CheckpointChunk[], known: CheckpointManifest | undefined): readonly Step[] {
  const indexes = new Map((known === undefined ? [] : checkpointChunks(known)).map(({ id }, index) => [id, index]))
  const times = new Map<string, number>()
  for (const { id } of chunks) times.set(id, (times.get(id) ?? 0) + 1)
  const held = new Set<string>()
  let heldBytes = 0
  return chunks.map((chunk): Step => {
    const index = indexes.get(chunk.id)
    if (held.has(chunk.id)) return { ...chunk, from: 'held', index: 0, isKept: true }
    const isKept = (times.get(chunk.id) ?? 0) > 1 && heldBytes + chunk.byteLength <= mostHeldBytes
    if (isKept) {
      held.add(chunk.id)
      heldBytes += chunk.byteLength
    }
    return { ...chunk, from: index === undefined ? 'sender' : 'known', index: index ?? 0, isKept }
  })
}
