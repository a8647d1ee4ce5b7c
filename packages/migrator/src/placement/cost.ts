import type { ComputeTarget, WorkloadNeeds, WorkloadProfile } from '@egpu/core'
import { ratesOf } from './rates.ts'
import type { MeasuredRates } from './rates.ts'

/** What is known of one workload that is to be placed. */
export interface Job {
  readonly needs: WorkloadNeeds
  /** Units of work left; a unit for itself where it is not known. */
  readonly unitsLeft?: number | undefined
  /** What has to be carried to a target before the work can go on there. */
  readonly stateBytes?: number | undefined
  /** The target that has the state already. */
  readonly residentOn?: string | undefined
}

/** How the targets stand. */
export interface Circumstances {
  /** Workloads on it already: they share it. */
  readonly sharing?: number | undefined
  readonly measured?: MeasuredRates | undefined
  /** How often it is lost. */
  readonly lossesPerHour?: number | undefined
  /** What a loss costs: until the work goes on elsewhere, and what has to be done again. */
  readonly lossMs?: number | undefined
}

export interface Estimate {
  /** One unit of work, with the target shared as it is. */
  readonly unitMs: number
  /** Until the state is there. */
  readonly setupMs: number
  /** All that is left. */
  readonly finishMs: number
  /** With what losses on the way cost; what placements are compared by. */
  readonly expectedMs: number
}

/** Work that does not tell what it costs is taken for compute: a GPU's millisecond. */
const assumedProfile: WorkloadProfile = { flops: 1e10 }

/** Each runtime further down the workload's list counts as this much slower. */
const runtimeStep = 0.1

/** What may vanish with a cable is lost once in so many hours until its own history says otherwise. */
const assumedHoursBetweenLosses = 8

/** Two seconds to go on elsewhere and half of a checkpoint interval of ten. */
const assumedLossMs = 7_000

/**
 * When a workload can be expected to be done on a target: a roofline of compute and memory, transfers over the link,
 * dispatches and round trips, all shared with what runs there; the state's way there first; and the risk of a target
 * that can vanish.
 */
export function estimate(
  job: Job,
  target: ComputeTarget,
  circumstances: Circumstances = {},
  sharing: number = circumstances.sharing ?? 0,
): Estimate {
  const { needs, unitsLeft, stateBytes = 0, residentOn } = job
  const { measured, lossMs = assumedLossMs } = circumstances
  const rates = ratesOf(target, measured)
  const { flops = 0, vramBytes = 0, overlap = 0, ...link } = needs.profile ?? assumedProfile
  const isLocal = target.kind === 'cpu'
  const toBytes = isLocal ? 0 : (link.toDeviceBytes ?? 0)
  const fromBytes = isLocal ? 0 : (link.fromDeviceBytes ?? 0)
  // Core's `workTime`, without its checks: a plan weighs a thousand targets in a millisecond.
  const onTargetMs = Math.max((flops / rates.flops) * 1e3, vramBytes / (rates.memoryGBps * 1e6))
  const copyMs = toBytes / (rates.toDeviceGBps * 1e6) + fromBytes / (rates.fromDeviceGBps * 1e6)
  // A copy has the latency of its round trip on top of its bytes.
  const trips = isLocal ? 0 : (link.roundTrips ?? 0) + Number(toBytes > 0) + Number(fromBytes > 0)
  const time = onTargetMs + Math.max(0, copyMs - overlap * onTargetMs) + trips * rates.latencyMs
  const taste = 1 + runtimeStep * Math.max(0, needs.runtimes.indexOf(target.runtime))
  const unitMs = (time + rates.dispatchMs) * (sharing + 1) * taste
  const isThere = residentOn === target.id || isLocal
  const setupMs = isThere || unitsLeft === undefined ? 0 : stateBytes / (rates.toDeviceGBps * 1e6)
  const finishMs = setupMs + unitMs * (unitsLeft ?? 1)
  const lossesPerHour = circumstances.lossesPerHour ?? (target.removable ? 1 / assumedHoursBetweenLosses : 0)
  return { unitMs, setupMs, finishMs, expectedMs: finishMs * (1 + (lossesPerHour * lossMs) / 3_600_000) }
}
