import { RuntimeKind } from '@egpu/core'
import type { ComputeTarget, WorkloadNeeds } from '@egpu/core'
import { misfitOf } from './compatibility.ts'
import type { Misfit } from './compatibility.ts'
import { unused } from './occupancy.ts'
import type { TargetUse } from './occupancy.ts'

export interface PlacementQuestion {
  readonly needs: WorkloadNeeds
  readonly targets: readonly ComputeTarget[]
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

/** The target with the least expected cost of those that can take the workload; `undefined` when none can. */
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

/** Where a target does not tell how fast it is: a mid-range GPU, and a desktop CPU at about a fiftieth of it. */
const assumedFlops = { gpu: 1e13, cpu: 2e11, host: 5e12 }

/** Each runtime further down the workload's list counts as this much slower. */
const runtimeStep = 0.1

/** What may vanish with a cable costs this much more, so that it loses a tie. */
const removablePenalty = 1.05

/** One question, with what is the same for every target worked out once. */
class Plan {
  readonly #question: PlacementQuestion
  readonly #misfit: ReturnType<typeof misfitOf>

  constructor(question: PlacementQuestion) {
    this.#question = question
    this.#misfit = misfitOf(question.needs)
  }

  cost(target: ComputeTarget): number {
    const { needs, preferCpu } = this.#question
    if (preferCpu === true && target.runtime === RuntimeKind.Cpu) return 0
    const sharing = this.#use(target).workloads + 1
    const secondsPerWork = sharing / (target.flops ?? assumedFlops[target.kind])
    const taste = 1 + runtimeStep * needs.runtimes.indexOf(target.runtime)
    return secondsPerWork * taste * (target.removable ? removablePenalty : 1)
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
