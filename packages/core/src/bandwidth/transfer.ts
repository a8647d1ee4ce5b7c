import { requireNonNegative, requirePositive } from './validate.ts'

/**
 * How long a copy takes, in milliseconds. `undefined` while the rate is unknown. Throws `TypeError` or `RangeError` for
 * negative bytes and for a rate that is not above 0.
 */
export function transferTimeMs(bytes: number, gBps: number | undefined, latencyMs: number = 0): number | undefined {
  requireNonNegative('bytes', bytes)
  requireNonNegative('latencyMs', latencyMs)
  if (gBps === undefined) return undefined
  requirePositive('gBps', gBps)
  return latencyMs + bytes / (gBps * 1e6)
}
