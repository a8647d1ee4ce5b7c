import type { ComputeTarget } from '@egpu/core'
import type { RunContext } from './context.ts'
import type { Homes } from './homes.ts'
import type { Moves } from './moves.ts'
import type { Situation } from './situation.ts'

export interface ReviewsOptions {
  readonly context: RunContext
  readonly workloadId: string
  readonly homes: Homes
  readonly situation: Situation
  readonly moves: Moves
}

/** Whether work should go back where it came from, or to where it is done sooner, and when that is to be asked next. */
export class Reviews {
  readonly #options: ReviewsOptions
  #dueAt = Infinity

  constructor(options: ReviewsOptions) {
    this.#options = options
  }

  get dueAt(): number {
    return this.#dueAt
  }

  /** Targets came or changed. */
  soon(): void {
    this.#dueAt = -Infinity
  }

  /** It began to work somewhere. */
  begin(): void {
    const { homes, situation } = this.#options
    this.#dueAt = homes.isAway ? -Infinity : situation.reviewAt()
  }

  async look(here: ComputeTarget): Promise<void> {
    const { context, workloadId, homes, situation, moves } = this.#options
    this.#dueAt = Infinity
    if (homes.isAway) {
      const { go, againAt } = await homes.review(here)
      this.#dueAt = againAt
      if (go !== undefined) moves.add({ ...go, mayPark: false })
      if (go !== undefined) return
    }
    const again = situation.reviewAt()
    if (again === Infinity) return
    await context.directory.list()
    this.#dueAt = Math.min(again, this.#dueAt)
    const { balancing } = context
    const targetId = balancing.size === 0 ? situation.review() : undefined
    if (targetId === undefined) return
    balancing.add(workloadId)
    const done = (): boolean => balancing.delete(workloadId)
    moves.add({ reason: 'rebalance', targetId, mayPark: false }).done.promise.then(done, done)
  }
}
