import type { Checkpointable } from '@egpu/core'
import type { Job } from '../placement/cost.ts'

/** What is left of a workload, as far as it tells. `savedBytes`: of its newest checkpoint. */
export function jobOf(
  { needs, progress }: Checkpointable,
  savedBytes: number | undefined,
  residentOn?: string,
): Omit<Job, 'needs'> {
  const unitsLeft = needs.units === undefined ? undefined : Math.max(0, needs.units - progress)
  return { unitsLeft, stateBytes: savedBytes ?? needs.memoryBytes, residentOn }
}
