import type { Checkpointable, ComputeTarget } from '@egpu/core'
import { incompatibility } from '../placement/compatibility.ts'
import { estimate } from '../placement/cost.ts'
import type { Circumstances, Job } from '../placement/cost.ts'
import { standingKey } from '../placement/stability.ts'
import type { Offer } from '../strategy.ts'
import { deviceRefusal, withCpu } from './choice.ts'
import type { RunContext } from './context.ts'
import type { Refusals } from './refusals.ts'

/** Before a removable device has a history it counts as one that was lost a tenth of a time in 48 minutes. */
const assumedLosses = 0.1
const assumedHours = 0.8

/** How a target stands, from what this migrator has seen of it. */
export function circumstancesOf(context: RunContext): (target: ComputeTarget) => Omit<Circumstances, 'sharing'> {
  const now = context.host.clock.now()
  return (target) => {
    const { losses, observedMs } = context.stability.history(standingKey(target), now)
    const isSteady = losses === 0 && !target.removable
    return {
      measured: context.rates.of(target.id),
      lossesPerHour: isSteady ? 0 : (assumedLosses + losses) / (assumedHours + observedMs / 3_600_000),
    }
  }
}

/** What there is to choose from for the rest of a workload that is well where it is. */
export interface Offers {
  readonly here: Offer
  readonly others: readonly Offer[]
}

export function offersFor(
  context: RunContext,
  { id, needs }: Pick<Checkpointable, 'id' | 'needs'>,
  job: Omit<Job, 'needs'>,
  here: ComputeTarget,
  moveMs: number,
  refusals: Refusals,
): Offers {
  const now = context.host.clock.now()
  const circumstances = circumstancesOf(context)
  const offer = (target: ComputeTarget): Offer => {
    const { workloads } = context.occupancy.of(target.id)
    // Where it is now it is one of those that share.
    const sharing = target.id === here.id ? Math.max(0, workloads - 1) : workloads
    const { expectedMs } = estimate({ ...job, needs }, target, { ...circumstances(target), sharing })
    return { target, finishMs: expectedMs, moveMs: target.id === here.id ? 0 : moveMs }
  }
  const others = withCpu(context, context.directory.known).filter(
    (target) =>
      target.id !== here.id &&
      deviceRefusal(context, target) === undefined &&
      refusals.reason(target, now) === undefined &&
      hasStayed(context, target, now) &&
      context.quarantine.reason(standingKey(target), id, now) === undefined &&
      incompatibility(needs, target, context.occupancy.of(target.id).bytes) === undefined,
  )
  return { here: offer(here), others: others.map(offer) }
}

/** It is listed, so it is back, since now at the latest. */
function hasStayed({ stability }: RunContext, target: ComputeTarget, now: number): boolean {
  stability.back(standingKey(target), now)
  return stability.trustedAt(standingKey(target)) <= now
}
