import type { Checkpointable, ComputeTarget } from '@egpu/core'
import { answerNow } from '../answer-now.ts'
import { standingKey } from '../placement/stability.ts'
import { shortInterval } from '../strategies/preemptive.ts'
import type { Warning, WarningAnswer, WorkloadView } from '../strategy.ts'
import type { Cadence } from './cadence.ts'
import type { RunContext } from './context.ts'
import { jobOf } from './job.ts'
import { offersFor } from './offers.ts'
import type { Offers } from './offers.ts'
import type { Refusals } from './refusals.ts'
import type { Saver } from './saver.ts'

export interface SituationOptions {
  readonly context: RunContext
  readonly workload: Checkpointable
  readonly priority: number
  readonly saver: Saver
  readonly cadence: Cadence
  readonly refusals: Refusals
  readonly where: () => ComputeTarget | undefined
}

const defaultReviewMs = 10_000

/** How one workload stands: what its strategy is told, and what the strategy makes of it. */
export class Situation {
  readonly #options: SituationOptions
  #savedAt: number | undefined
  #moveMs: number | undefined
  /** Save this often while its device is alarmed about. */
  #shortMs: number | undefined

  constructor(options: SituationOptions) {
    this.#options = options
  }

  get view(): WorkloadView {
    const { workload, priority, saver, where } = this.#options
    const situation = this.#options
    const now = this.#now()
    const offers = (): Offers | undefined => this.#offers()
    return {
      id: workload.id,
      priority,
      progress: workload.progress,
      where: where(),
      savedProgress: saver.latest?.progress,
      unsavedMs: this.#savedAt === undefined ? undefined : now - this.#savedAt,
      intervalMs: situation.cadence.intervalMs(this.history().losses, this.history().observedMs),
      pauseMs: saver.cost?.pauseMs,
      saveMs: saver.cost?.totalMs,
      moveMs: this.#moveMs,
      // Asked for by few, and it takes a look at every target.
      get slowdownElsewhere() {
        const found = offers()
        if (found === undefined) return 1
        return Math.min(...found.others.map(({ finishMs }) => finishMs)) / found.here.finishMs
      },
    }
  }

  /** Losses of the device it is on, in how long; while an alarm lasts, as many as make the interval short. */
  history(): { readonly losses: number; readonly observedMs: number } {
    const { context, where } = this.#options
    const target = where()
    if (target === undefined) return { losses: 0, observedMs: 0 }
    if (!context.forecasts.isAlarmed(target.deviceId)) this.#shortMs = undefined
    if (this.#shortMs === undefined) return context.stability.history(standingKey(target), this.#now())
    return { losses: 3_600_000 / this.#shortMs, observedMs: 0 }
  }

  /** All it has done so far is in the store, or can be begun again for nothing. */
  saved(): void {
    this.#savedAt = this.#now()
  }

  /** Milliseconds of work that a loss would cost, times how much they matter: each step of priority counts double. */
  get atStake(): number {
    return (this.#now() - (this.#savedAt ?? 0)) * 2 ** Math.min(30, Math.max(-30, this.#options.priority))
  }

  /** The last move made it stand still for so long. */
  moved(ms: number): void {
    this.#moveMs = ms
  }

  answer(warning: Warning): WarningAnswer {
    const { context } = this.#options
    let answer: WarningAnswer
    try {
      answer = answerNow(() => context.config.strategy.onWarning(warning, this.view))
    } catch {
      return 'wait'
    }
    if (answer === 'shorten') {
      const { probability = 0.5, leadMs = 120_000 } = warning.forecast ?? {}
      this.#shortMs = shortInterval(probability, leadMs, this.view)
    }
    return answer
  }

  /** When the strategy wants to be asked next whether the work is in the right place. */
  reviewAt(): number {
    const { strategy } = this.#options.context.config
    return strategy.review === undefined ? Infinity : this.#now() + (strategy.reviewEveryMs ?? defaultReviewMs)
  }

  /** The target that the strategy finds worth a move. */
  review(): string | undefined {
    const { strategy } = this.#options.context.config
    const offers = strategy.review === undefined ? undefined : this.#offers()
    if (offers === undefined) return undefined
    try {
      const id = answerNow(() => strategy.review?.(offers.here, offers.others, this.view))
      return offers.others.some(({ target }) => target.id === id) ? id : undefined
    } catch {
      return undefined
    }
  }

  #offers(): Offers | undefined {
    const { context, workload, saver, refusals, where } = this.#options
    const here = where()
    if (here === undefined) return undefined
    const moveMs = this.#moveMs ?? 2 * (saver.cost?.totalMs ?? 0)
    return offersFor(context, workload, jobOf(workload, saver.latest?.byteLength, here.id), here, moveMs, refusals)
  }

  #now(): number {
    return this.#options.context.host.clock.now()
  }
}
