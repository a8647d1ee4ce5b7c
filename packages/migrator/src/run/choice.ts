import { EGpuError, EGpuErrorCode, GpuDeviceState } from '@egpu/core'
import type { ComputeTarget, WorkloadNeeds } from '@egpu/core'
import { answerNow } from '../answer-now.ts'
import { messageOf } from '../failure.ts'
import { incompatibility } from '../placement/compatibility.ts'
import { chooseTarget, passedOver, rankTargets } from '../placement/planner.ts'
import type { PlacementQuestion } from '../placement/planner.ts'
import type { Job } from '../placement/cost.ts'
import { standingKey } from '../placement/stability.ts'
import type { WorkloadView } from '../strategy.ts'
import type { RunContext } from './context.ts'
import { circumstancesOf } from './offers.ts'
import type { Refusals } from './refusals.ts'

const unusable: ReadonlySet<GpuDeviceState> = new Set([
  GpuDeviceState.Leaving,
  GpuDeviceState.Lost,
  GpuDeviceState.Wedged,
  GpuDeviceState.Removed,
])

export interface ChoiceOptions {
  readonly needs: WorkloadNeeds
  readonly view: WorkloadView
  /** What is left of the work, and where its state is. */
  readonly job: Omit<Job, 'needs'>
  readonly refusals: Refusals
  /** The device to get away from. */
  readonly offDeviceId?: string | undefined
  /** The only target that will do. */
  readonly targetId?: string | undefined
  readonly preferCpu?: boolean | undefined
}

/** Where a workload is to go, or why nowhere. */
export type Choice =
  | {
      readonly target: ComputeTarget
      /** Gives the booked place back. */
      readonly giveBack: () => void
      /** The strategy named a target that is not there. */
      readonly mistake?: EGpuError | undefined
    }
  | {
      readonly target: undefined
      readonly error: EGpuError
      /** The workload itself broke again and again on every target that could take it. */
      readonly hopeless: boolean
    }

/** Picks a target and books the place on it in the same breath. */
export async function choose(context: RunContext, options: ChoiceOptions): Promise<Choice> {
  const targets = withCpu(context, await context.directory.list())
  const now = context.host.clock.now()
  const refuse = (target: ComputeTarget): string | undefined =>
    outOfTheQuestion(context, target, options) ?? options.refusals.reason(target, now)
  const question: PlacementQuestion = {
    needs: options.needs,
    job: options.job,
    circumstances: circumstancesOf(context),
    targets,
    use: (id) => context.occupancy.of(id),
    refuse,
    preferCpu: options.preferCpu,
  }
  // A device that was lost a moment ago, or again and again, is left alone, unless it is that or nothing.
  const cautious: PlacementQuestion = {
    ...question,
    refuse: (target) =>
      refuse(target) ??
      (context.stability.trustedAt(standingKey(target)) > now ? 'has not been back for long' : undefined) ??
      (context.forecasts.isAlarmed(target.deviceId) ? 'is expected to fail' : undefined) ??
      context.quarantine.reason(standingKey(target), options.view.id, now) ??
      failsWithOthers(context, target),
  }
  const { target, mistake } = decide(context, cautious, options.view)
  const chosen = target ?? decide(context, question, options.view).target
  if (chosen === undefined) {
    const { needs, refusals } = options
    const able = targets.filter(
      (candidate) => refusals.forbidden(candidate) === undefined && incompatibility(needs, candidate) === undefined,
    )
    const hopeless = able.length > 0 && able.every(({ id }) => refusals.isHopeless(id))
    return { target: undefined, error: noTarget(options, question), hopeless }
  }
  return { target: chosen, giveBack: context.occupancy.reserve(chosen, options.needs.memoryBytes ?? 0), mistake }
}

/** All that the drivers offer and the CPU. */
export function withCpu({ cpu }: RunContext, targets: readonly ComputeTarget[]): readonly ComputeTarget[] {
  return cpu === undefined ? targets : [...targets, cpu.target]
}

/** Why the device behind a target takes no work, as far as its state tells. */
export function deviceRefusal({ host, departing }: RunContext, target: ComputeTarget): string | undefined {
  if (target.deviceId === undefined) return undefined
  const device = host.find(target.deviceId)
  if (device === undefined) return undefined
  if (unusable.has(device.state)) return `is ${device.state}`
  return departing.get(device.id) === device.epoch ? 'is being disconnected' : undefined
}

function outOfTheQuestion(context: RunContext, target: ComputeTarget, options: ChoiceOptions): string | undefined {
  if (options.targetId !== undefined && target.id !== options.targetId) return 'is not the one asked for'
  if (options.offDeviceId !== undefined && target.deviceId === options.offDeviceId) return 'is the one to get away from'
  return (
    deviceRefusal(context, target) ??
    context.quarantine.bar(standingKey(target), options.view.id, context.host.clock.now())
  )
}

/** Whether it stands on the same ground as devices that were just lost together. */
function failsWithOthers({ host, correlation }: RunContext, { deviceId }: ComputeTarget): string | undefined {
  const device = deviceId === undefined ? undefined : host.find(deviceId)
  return device && correlation.reason(device, host.enclosures ?? [], host.clock.now())
}

function decide(
  { config }: RunContext,
  question: PlacementQuestion,
  view: WorkloadView,
): { readonly target: ComputeTarget | undefined; readonly mistake?: EGpuError } {
  const { strategy } = config
  if (strategy.choose === undefined) return { target: chooseTarget(question) }
  const ranked = rankTargets(question)
  if (ranked.length === 0) return { target: undefined }
  const fallback = ranked[0]
  try {
    const id = answerNow(() => strategy.choose?.(ranked, view))
    if (id === undefined) return { target: fallback }
    const target = ranked.find((candidate) => candidate.id === id)
    if (target !== undefined) return { target }
    return {
      target: fallback,
      mistake: strategyMistake(strategy.name, `chose '${id}', which is not among the candidates`),
    }
  } catch (error) {
    return { target: fallback, mistake: strategyMistake(strategy.name, `threw: ${messageOf(error)}`, error) }
  }
}

function strategyMistake(name: string, did: string, cause?: unknown): EGpuError {
  const message = `the strategy ${name} ${did}; the planner's choice is used instead`
  return new EGpuError(EGpuErrorCode.NoTarget, message, { cause })
}

function noTarget({ view, targetId }: ChoiceOptions, question: PlacementQuestion): EGpuError {
  if (targetId !== undefined && !question.targets.some(({ id }) => id === targetId)) {
    const there = question.targets.map(({ id, name }) => `\n  ${id} (${name})`)
    const which = there.length === 0 ? 'there are none at all' : `there are:${there.join('')}`
    return new EGpuError(EGpuErrorCode.NoTarget, `there is no target ${targetId} for ${view.id} to move to; ${which}`)
  }
  const reasons = passedOver(question).map(({ target, reason }) => `\n  ${target.name} (${target.id}) ${reason}`)
  const found = reasons.length === 0 ? 'there are no targets at all' : `each was passed over:${reasons.join('')}`
  return new EGpuError(EGpuErrorCode.NoTarget, `no target can take ${view.id}; ${found}`)
}
