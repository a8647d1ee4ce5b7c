import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import { messageOf, saysLost } from '../failure.ts'
import { standingKey } from '../placement/stability.ts'
import type { WorkloadView } from '../strategy.ts'
import { arrive } from './arrival.ts'
import { Attempt } from './attempt.ts'
import type { Cause } from './cause.ts'
import { jobOf } from './job.ts'
import { choose } from './choice.ts'
import type { RunContext } from './context.ts'
import { Notice } from './notice.ts'
import type { Plight } from './notice.ts'
import type { Placement } from './placement.ts'
import type { Refusals } from './refusals.ts'
import type { Saver } from './saver.ts'
import { couldNotGoOn } from './work.ts'
import type { Work } from './work.ts'

/** How often a parked workload looks for a target whose driver does not tell of new ones. */
const lookAgainMs = 5_000

export interface ArrivalsOptions {
  readonly context: RunContext
  readonly work: Work
  readonly saver: Saver
  readonly refusals: Refusals
  readonly view: () => WorkloadView
  readonly wake: () => void
  readonly stop: AbortSignal
  readonly startOn: string | undefined
}

/** One workload's attempts to get onto a target, and what it learned from those that failed. */
export class Arrivals {
  readonly #options: ArrivalsOptions
  #arriving: Placement | undefined
  #isFirst = true
  #startOn: string | undefined
  #hopeless: EGpuError | undefined
  #ownFault: EGpuError | undefined
  #noTarget: EGpuError | undefined
  #storeFailure: EGpuError | undefined
  readonly #notice: Notice

  constructor(options: ArrivalsOptions) {
    this.#options = options
    this.#notice = new Notice(options.context.host.clock)
    this.#startOn = options.startOn
  }

  /** Where an earlier process had it, unless the user knows better. */
  recall(targetId: string | undefined): void {
    this.#startOn ??= targetId
  }

  /** The stay that is being prepared. */
  get arriving(): Placement | undefined {
    return this.#arriving
  }

  /** It has not worked anywhere yet. */
  get isFirst(): boolean {
    return this.#isFirst
  }

  /** Every target that could take it failed for the workload's own fault, often: how it broke the last time. */
  get hopeless(): EGpuError | undefined {
    return this.#hopeless
  }

  /** Why the last search found no target. */
  get noTarget(): EGpuError | undefined {
    return this.#noTarget
  }

  /** Why the last attempt failed, where it was for the store: it is used by another, or cannot be. */
  get storeFailure(): EGpuError | undefined {
    return this.#storeFailure
  }

  /** When a parked workload should look again at the latest. */
  retryAt(): number {
    const now = this.#now()
    return Math.min(now + lookAgainMs, this.#options.refusals.nextAt(now))
  }

  /** Chooses a target for work that is on none and books it; publishes why when there is none now. */
  async begin(cause: Cause): Promise<Attempt | undefined> {
    const first = cause.move?.targetId ?? (this.#isFirst ? this.#startOn : undefined)
    const attempt = await this.#begin(cause, first, 'parked')
    return attempt ?? this.#begin(cause, undefined, 'parked')
  }

  /**
   * Opens the next target while the work goes on at the old one, and leaves it in `cause.attempt`: the one that was
   * asked for, or the best that opens; none if there is none. Rejects when `stop` fires; a target that was being opened
   * then is in `cause.attempt` all the same.
   */
  async openAhead(cause: Cause, stop: AbortSignal): Promise<void> {
    for (;;) {
      const attempt = await this.#begin(cause, cause.move?.targetId, 'working')
      cause.attempt = attempt
      stop.throwIfAborted()
      if (attempt === undefined) return
      try {
        await attempt.open(stop, this.#options.wake)
        return
      } catch (error) {
        stop.throwIfAborted()
        this.#failed(attempt, error)
      }
    }
  }

  /** Opens, restores, resumes. `undefined` when that failed; the failure is published. */
  async complete(attempt: Attempt, { progress }: Cause): Promise<Placement | undefined> {
    const { context, work, saver, wake, stop } = this.#options
    try {
      this.#arriving = await attempt.open(stop, wake)
      await arrive(context, work, saver, this.#arriving, stop, (step) => attempt.step(step))
      this.#succeeded(attempt, this.#arriving, progress)
      return this.#arriving
    } catch (error) {
      this.#failed(attempt, error)
      return undefined
    } finally {
      this.#arriving = undefined
    }
  }

  /** Something happened to a target that is being prepared. */
  get wake(): () => void {
    return this.#options.wake
  }

  /** The workload was brought onto a target by other means than a restore: it only has to be set to work. */
  arrived(attempt: Attempt, placement: Placement, progress: number): void {
    const { work, context } = this.#options
    work.resume(couldNotGoOn(work, placement, context.host.clock))
    this.#succeeded(attempt, placement, progress)
  }

  noteLoss(target: ComputeTarget): void {
    this.#options.context.past.lost(standingKey(target))
    this.#options.context.directory.invalidate()
  }

  #succeeded(attempt: Attempt, { target }: Placement, progress: number): void {
    const { refusals, work } = this.#options
    refusals.clear(target.id)
    attempt.succeed(work.workload.progress, progress)
    this.#isFirst = false
    this.#noTarget = undefined
    this.#notice.over()
  }

  async #begin(cause: Cause, targetId: string | undefined, how: Plight): Promise<Attempt | undefined> {
    const { context, work, saver, refusals, view } = this.#options
    const choice = await choose(context, {
      needs: work.workload.needs,
      view: view(),
      job: jobOf(work.workload, saver.latest?.byteLength),
      refusals,
      targetId,
      offDeviceId: cause.move?.offDeviceId,
      preferCpu: context.config.preferCpuFallback && cause.reason.startsWith('device-'),
    })
    const attempt = new Attempt(context, work.workload, cause, refusals, this.#isFirst)
    if (choice.target === undefined) {
      this.#noTarget = choice.error
      const isToldOf = targetId === undefined || cause.from !== undefined
      if (isToldOf && this.#notice.isDue(how, choice.error.message)) attempt.failWithoutTarget(choice.error)
      this.#hopeless = choice.hopeless && targetId === undefined ? this.#ownFault : undefined
      return undefined
    }
    if (choice.mistake !== undefined) attempt.failWithoutTarget(choice.mistake)
    attempt.aim(choice.target, choice.giveBack)
    return attempt
  }

  #failed(attempt: Attempt, error: unknown): void {
    const { stop, refusals } = this.#options
    const { target } = attempt
    if (!stop.aborted) {
      this.#storeFailure = EGpuError.is(error, EGpuErrorCode.CheckpointFailed) ? error : undefined
      if (target !== undefined) {
        const ownFault = EGpuError.is(error, EGpuErrorCode.WorkloadFailed) ? error : undefined
        this.#ownFault = ownFault ?? this.#ownFault
        refusals.note(target.id, this.#now(), messageOf(error), ownFault !== undefined)
        if (saysLost(error)) this.noteLoss(target)
      }
      attempt.fail(error)
    }
    attempt.end()
  }

  #now(): number {
    return this.#options.context.host.clock.now()
  }
}
