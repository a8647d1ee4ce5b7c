import { RuntimeKind, workTime } from '@egpu/core'
import type { ComputeTarget, WorkloadNeeds } from '@egpu/core'
import { misfitOf } from './compatibility.ts'
import type { Misfit } from './compatibility.ts'
import { estimate } from './cost.ts'
import type { Circumstances, Job } from './cost.ts'
import { unused } from './occupancy.ts'
import type { TargetUse } from './occupancy.ts'

export interface PlacementQuestion {
  readonly needs: WorkloadNeeds
  readonly targets: readonly ComputeTarget[]
  /** What else is known of the workload. */
  readonly job?: Omit<Job, 'needs'> | undefined
  /** How a target stands: measured rates, how often it is lost. */
  readonly circumstances?: ((target: ComputeTarget) => Omit<Circumstances, 'sharing'>) | undefined
  /** What is on a target already. */
  readonly use?: ((targetId: string) => TargetUse) | undefined
  /** Why a target is out of the question just now: its device is leaving, it failed a moment ago. */
  readonly refuse?: ((target: ComputeTarget) => string | undefined) | undefined
  /** The CPU before any GPU. */
  readonly preferCpu?: boolean | undefined
}

/** A target that was not chosen, and why it could not be. */
export interface PassedOver {
  readonly target: ComputeTarget
  readonly reason: string
}

/** The target on which the workload is expected to be done first, of those that can take the workload; `undefined` when none can. */
export function chooseTarget(question: PlacementQuestion): ComputeTarget | undefined {
  const plan = new Plan(question)
  let best: ComputeTarget | undefined
  let bestCost = Infinity
  for (const target of question.targets) {
    const cost = plan.cost(target)
    // What asks others comes last: only a target that would be chosen is worth the question.
    if (cost >= bestCost || plan.whyNot(target) !== undefined) continue
    best = target
    bestCost = cost
  }
  return best
}

/** Every target that can take the workload, best first: what a strategy of one's own chooses from. */
export function rankTargets(question: PlacementQuestion): readonly ComputeTarget[] {
  const plan = new Plan(question)
  return question.targets
    .filter((target) => plan.whyNot(target) === undefined)
    .map((target) => ({ target, cost: plan.cost(target) }))
    .sort((a, b) => a.cost - b.cost)
    .map(({ target }) => target)
}

/** Why each target that cannot take the workload was passed over. */
export function passedOver(question: PlacementQuestion): readonly PassedOver[] {
  const plan = new Plan(question)
  return question.targets.flatMap((target) => {
    const why = plan.whyNot(target)
    return why === undefined ? [] : [{ target, reason: why() }]
  })
}

/** One question, with what is the same for every target worked out once. */
class Plan {
  readonly #question: PlacementQuestion
  readonly #misfit: ReturnType<typeof misfitOf>
  readonly #job: Job

  constructor(question: PlacementQuestion) {
    this.#question = question
    this.#misfit = misfitOf(question.needs)
    // Refuses a profile that cannot be, once and not for each target.
    if (question.needs.profile !== undefined) workTime(question.needs.profile, {}, {})
    this.#job = { ...question.job, needs: question.needs }
  }

  cost(target: ComputeTarget): number {
    const { preferCpu } = this.#question
    if (preferCpu === true && target.runtime === RuntimeKind.Cpu) return 0
    const circumstances = this.#question.circumstances?.(target)
    return estimate(this.#job, target, circumstances, this.#use(target).workloads).expectedMs
  }

  whyNot(target: ComputeTarget): Misfit | undefined {
    const misfit = this.#misfit(target, this.#use(target).bytes)
    if (misfit !== undefined) return misfit
    const refusal = this.#question.refuse?.(target)
    return refusal === undefined ? undefined : () => refusal
  }

  #use({ id }: ComputeTarget): TargetUse {
    return this.#question.use?.(id) ?? unused
  }
}
