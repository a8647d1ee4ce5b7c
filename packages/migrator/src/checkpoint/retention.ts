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

/**
 * The generations to remove, of `records` newest first. None is younger than one that came after it, whatever a clock that
 * was put back since says.
 */
export function expired(records: readonly CheckpointRecord[], retention: Retention, nowMs: number): readonly number[] {
  const { generations, maxAgeMs = Infinity, maxBytes = Infinity } = retention
  let bytes = 0
  let newerAtMs = Infinity
  return records.flatMap(({ generation, savedAtMs, byteLength }, place) => {
    bytes += byteLength
    newerAtMs = Math.min(newerAtMs, savedAtMs)
    if (place < leastGenerations) return []
    const goes = place >= generations || nowMs - newerAtMs > maxAgeMs || bytes > maxBytes
    return goes ? [generation] : []
  })
}
