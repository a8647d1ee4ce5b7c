import type { CheckpointRecord } from './store.ts'

/** Which checkpoints of a workload stay. The two newest always do. */
export interface Retention {
  /** How many stay at most; from 2 up. */
  readonly generations: number
  /** Older ones go. */
  readonly maxAgeMs?: number | undefined
  /** Together they may be so large, counting each in full. */
  readonly maxBytes?: number | undefined
}

/** One checkpoint that turns out to be bad must never have been the only one. */
export const leastGenerations = 2

/** The generations to remove, of `records` newest first. */
export function expired(records: readonly CheckpointRecord[], retention: Retention, nowMs: number): readonly number[] {
  const { generations, maxAgeMs = Infinity, maxBytes = Infinity } = retention
  let bytes = 0
  return records.flatMap(({ generation, savedAtMs, byteLength }, place) => {
    bytes += byteLength
    if (place < leastGenerations) return []
    const goes = place >= generations || nowMs - savedAtMs > maxAgeMs || bytes > maxBytes
    return goes ? [generation] : []
  })
}
