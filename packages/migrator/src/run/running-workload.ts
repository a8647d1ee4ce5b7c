import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Checkpointable, ComputeTarget, EGpuDevice, TargetLoss } from '@egpu/core'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import { messageOf } from '../failure.ts'
import { standingKey } from '../placement/stability.ts'
import type { Warning, WarningAnswer, WorkloadView } from '../strategy.ts'
import { Wakeup } from '../wakeup.ts'
import { Arrivals } from './arrivals.ts'
import { Cadence } from './cadence.ts'
import type { Cause } from './cause.ts'
import { graceMs } from './context.ts'
import type { RunContext } from './context.ts'
import { deferred, quiet } from './deferred.ts'
import type { Deferred } from './deferred.ts'
import { depart, settleWithin, takeOff } from './departure.ts'
import { Homes } from './homes.ts'
import { Moves } from './moves.ts'
import type { Move, MoveRequest } from './moves.ts'
import type { Placement } from './placement.ts'
import { PoisonWatch } from './poison.ts'
import { Refusals } from './refusals.ts'
import { SaveSchedule } from './save-schedule.ts'
import { Saver } from './saver.ts'
import { RunState } from './workload-run.ts'
import type { RunOptions, WorkloadRun } from './workload-run.ts'

/** How a run ends. */
type Outcome = { readonly ok: true } | { readonly ok: false; readonly error: unknown; readonly state: RunState }

/**
 * One workload's life: a single loop places it, attends to it and takes it off, so there is never more than one
 * recovery under way and never more than one target in charge. Everything else only leaves the loop a note and wakes it.
 */
export class RunningWorkload implements WorkloadRun {
  readonly workload: Checkpointable
  readonly finished: Promise<void>
  /** Resolves, never rejects, when `finished` has settled and nothing is left to be cleaned up. */
  readonly over: Promise<void>
  readonly #context: RunContext
  readonly #priority: number
  readonly #saver: Saver
  readonly #schedule: SaveSchedule
  readonly #homes: Homes
  readonly #arrivals: Arrivals
  readonly #moves = new Moves()
  readonly #poison = new PoisonWatch()
  readonly #wakeup: Wakeup
  readonly #stop = new AbortController()
  readonly #started = deferred<ComputeTarget>()
  #state: RunState = RunState.Placing
  #placement: Placement | undefined
  #outcome: Outcome | undefined
  #reviewAt = Infinity
  #settling: Deferred<void> | undefined

  /** `after`: an earlier run of the same workload that is still being cleaned up. */
  constructor(context: RunContext, workload: Checkpointable, options: RunOptions, after: Promise<void> | undefined) {
    const { clock } = context.host
    const { migrationTimeoutMs: timeoutMs, checkpointIntervalMs, checkpointOverhead } = context.config
    const refusals = new Refusals()
    const wake = (): void => this.#wakeup.notify()
    this.#context = context
    this.workload = workload
    this.#priority = options.priority ?? 0
    this.#wakeup = new Wakeup(clock)
    this.#saver = new Saver({
      workload,
      checkpoints: context.checkpoints,
      clock,
      timeoutMs,
      graceMs: graceMs(context),
      report: (event) => context.report(event),
    })
    this.#schedule = new SaveSchedule({
      workload,
      saver: this.#saver,
      clock,
      cadence: new Cadence(checkpointOverhead, checkpointIntervalMs),
      history: () => {
        const { where } = this
        return where === undefined
          ? { losses: 0, observedMs: 0 }
          : context.stability.history(standingKey(where), clock.now())
      },
      wake,
    })
    this.#homes = new Homes(context, workload.needs, refusals)
    this.#arrivals = new Arrivals({
      context,
      workload,
      saver: this.#saver,
      refusals,
      wake,
      view: () => this.view,
      stop: this.#stop.signal,
      startOn: options.startOn,
    })
    quiet(this.#started.promise)
    this.#watchEnd(options.signal)
    this.finished = this.#live(after)
    this.over = this.#cleanUp(options.keepCheckpoints ?? false)
  }

  get state(): RunState {
    return this.#state
  }

  get where(): ComputeTarget | undefined {
    return this.#placement?.target
  }

  get started(): Promise<ComputeTarget> {
    return this.#started.promise
  }

  get latestCheckpoint(): CheckpointRecord | undefined {
    return this.#saver.latest
  }

  get view(): WorkloadView {
    const { id, progress } = this.workload
    return { id, progress, priority: this.#priority, where: this.where, savedProgress: this.#saver.latest?.progress }
  }

  checkpoint({ signal }: AbortOptions = {}): Promise<CheckpointRecord> {
    if (this.#outcome !== undefined) return Promise.reject(this.#over())
    return abandonable(this.#schedule.request(), signal)
  }

  async moveTo(targetId: string, { signal }: AbortOptions = {}): Promise<ComputeTarget> {
    if (this.where?.id !== targetId) {
      const move = this.#request({ reason: 'requested', targetId, mayPark: false })
      await this.#awaitMove(move, signal)
    }
    const { where } = this
    if (where?.id === targetId) return where
    throw new EGpuError(EGpuErrorCode.MigrationFailed, `${this.workload.id} was moved on from ${targetId} at once`)
  }

  async close(): Promise<void> {
    this.#conclude({ ok: false, error: this.#over(), state: RunState.Closed })
    await this.over
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** A device died or left the bus: if the work is on it, or about to be, that stay is over. */
  deviceGone(device: EGpuDevice, reason: TargetLoss['reason'], message: string): void {
    for (const stay of this.#stays()) {
      if (stay.target.deviceId !== device.id || stay.open.epoch > device.epoch) continue
      stay.lose({ reason, message, atMs: this.#now() })
    }
  }

  /** The application knows better than any driver that this device failed. */
  async deviceFailed(deviceId: string, reason: string): Promise<void> {
    const stays = this.#stays().filter(({ target }) => target.deviceId === deviceId)
    for (const stay of stays) stay.lose({ reason: 'unknown', message: reason, atMs: this.#now() })
    if (stays.length > 0) await this.#settled()
  }

  /** Asks the strategy what a warning means for this workload, if it is concerned at all. */
  warn(warning: Warning): void {
    const { id } = warning.device
    if (this.where?.deviceId !== id || this.#outcome !== undefined) return
    const answer = this.#answer(warning)
    if (answer === 'checkpoint') this.#schedule.soon()
    if (answer !== 'move' || this.#moves.isLeaving(id)) return
    const reason = warning.kind === 'leaving' ? 'device-leaving' : 'device-failing'
    // Where it cannot go it stays, with a fresh checkpoint; the failure itself was published.
    this.#request({ reason, offDeviceId: id, mayPark: false }).done.promise.catch(() => this.#schedule.soon())
  }

  /** Resolves once nothing of this workload is on the device; rejects with what keeps it there. */
  async leave(deviceId: string, signal?: AbortSignal): Promise<void> {
    if (this.#outcome !== undefined || !this.#stays().some(({ target }) => target.deviceId === deviceId)) return
    await this.#awaitMove(this.#request({ reason: 'device-leaving', offDeviceId: deviceId, mayPark: true }), signal)
  }

  /** Targets came or changed. */
  reconsider(): void {
    if (!this.#homes.isAway && this.#state !== RunState.Parked) return
    this.#reviewAt = -Infinity
    this.#wakeup.notify()
  }

  async #live(after: Promise<void> | undefined): Promise<void> {
    await after
    let cause: Cause | undefined = this.#causeOf('requested')
    while (cause !== undefined) {
      const placement = await this.#place(cause)
      cause = placement === undefined ? undefined : await this.#attend(placement)
    }
    await this.#end()
    const outcome = this.#outcome as unknown as Outcome
    this.#state = outcome.ok ? RunState.Finished : outcome.state
    this.#moves.end()
    this.#settle()
    this.#schedule.end(this.#over())
    if (outcome.ok) return
    this.#started.reject(outcome.error)
    throw outcome.error
  }

  /** After whoever waits for the end has heard of it: until then the checkpoints are all there is. */
  async #cleanUp(keepCheckpoints: boolean): Promise<void> {
    try {
      await this.finished
      if (!keepCheckpoints) await this.#saver.forget()
    } catch {
      // Work that did not finish keeps its checkpoints.
    }
  }

  /** Steps 4 to 6: select a target, restore, resume; on to the next if that fails, and wait if there is none. */
  async #place(cause: Cause): Promise<Placement | undefined> {
    this.#state = this.#arrivals.isFirst ? RunState.Placing : RunState.Moving
    try {
      while (this.#outcome === undefined) {
        this.#moves.settle(undefined)
        cause.slot ??= await this.#slot(cause, this.#stop.signal)
        const attempt = cause.attempt ?? (await this.#arrivals.begin(cause))
        cause.attempt = undefined
        const placement = attempt === undefined ? undefined : await this.#arrivals.complete(attempt, cause)
        if (placement !== undefined) {
          this.#arrived(placement, cause)
          return placement
        }
        if (attempt !== undefined) continue
        cause.slot()
        cause.slot = undefined
        await this.#park()
      }
    } catch (error) {
      if (this.#outcome === undefined) this.#conclude({ ok: false, error, state: RunState.Failed })
    } finally {
      cause.attempt?.end()
      cause.slot?.()
    }
    return undefined
  }

  async #park(): Promise<void> {
    if (this.#arrivals.isHopeless) {
      const message = `${this.workload.id} failed again and again on every target that could take it; its checkpoints are kept`
      this.#conclude({ ok: false, error: new EGpuError(EGpuErrorCode.WorkloadFailed, message), state: RunState.Failed })
      return
    }
    this.#state = RunState.Parked
    this.#settle()
    await this.#wakeup.wait(this.#arrivals.retryAt() - this.#now())
    this.#context.directory.invalidate()
  }

  #arrived(placement: Placement, { move, reason }: Cause): void {
    const { target } = placement
    this.#placement = placement
    this.#state = RunState.Running
    this.#schedule.begin()
    if (reason === 'requested') this.#homes.forget()
    this.#homes.arrivedAt(target)
    this.#reviewAt = this.#homes.isAway ? -Infinity : Infinity
    if (move?.targetId !== undefined && move.targetId !== target.id) {
      const message = `${this.workload.id} could not go to ${move.targetId}; it is on ${target.name} now`
      this.#moves.refuse(move, new EGpuError(EGpuErrorCode.MigrationFailed, message))
    }
    this.#moves.settle(target)
    this.#settle()
    this.#started.resolve(target)
  }

  /** Until something has to be done about it, the workload works and is saved now and then. */
  async #attend(placement: Placement): Promise<Cause | undefined> {
    while (this.#outcome === undefined) {
      if (placement.loss !== undefined) return this.#onFailure(placement, placement.loss)
      const move = this.#moves.next
      if (move !== undefined) {
        const cause = await this.#move(placement, move)
        if (cause !== undefined) return cause
        continue
      }
      this.#schedule.tick(placement)
      if (this.#now() >= this.#reviewAt) {
        this.#reviewAt = Infinity
        if (this.#homes.isAway) await this.#review(placement)
        continue
      }
      await this.#wakeup.wait(Math.min(this.#schedule.dueAt, this.#reviewAt) - this.#now())
    }
    return undefined
  }

  async #review({ target }: Placement): Promise<void> {
    const { go, againAt } = await this.#homes.review(target)
    this.#reviewAt = againAt
    if (go !== undefined) this.#request({ ...go, mayPark: false })
  }

  /** Steps 1 to 3 of a loss: it was noticed, the workload lets go, and a commit that was under way may still count. */
  async #onFailure(placement: Placement, loss: TargetLoss): Promise<Cause> {
    this.#state = RunState.Moving
    const { target } = placement
    const cause = this.#causeOf('device-lost', target, placement.lostAt)
    this.#arrivals.noteLoss(target)
    this.#homes.drivenFrom(target)
    this.#poison.lost(target, loss, this.#saver.latest?.progress)
    this.#placement = undefined
    await Promise.all([
      settleWithin(this.#context, this.#saver.saving, graceMs(this.#context)),
      depart(this.#context, this.workload, placement),
    ])
    const { victims } = this.#poison
    if (victims !== undefined) {
      const message = `${this.workload.id} was running each time when ${victims.join(', ')} died, and got nowhere; it is stopped, its checkpoints are kept`
      this.#conclude({ ok: false, error: new EGpuError(EGpuErrorCode.WorkloadFailed, message), state: RunState.Failed })
    }
    return cause
  }

  /** A move while the source lives: it keeps the work until the work's last state is committed. */
  async #move(placement: Placement, move: Move): Promise<Cause | undefined> {
    const stop = AbortSignal.any([placement.signal, this.#stop.signal])
    const cause: Cause = { ...this.#causeOf(move.reason, placement.target), move }
    try {
      cause.slot = await this.#slot(cause, stop)
      await this.#arrivals.openAhead(cause, stop)
      if (cause.attempt === undefined && !move.mayPark) throw this.#arrivals.noTarget
      this.#state = RunState.Moving
      this.#schedule.settle(await takeOff(this.#context, this.workload, this.#saver, placement, stop))
      await depart(this.#context, this.workload, placement)
    } catch (error) {
      if (placement.loss !== undefined && this.#outcome === undefined) {
        // The source died before the work was off it; the target that was prepared is as good as any.
        const { attempt, slot } = cause
        return { ...(await this.#onFailure(placement, placement.loss)), attempt, slot }
      }
      if (this.#outcome === undefined) cause.attempt?.fail(error)
      cause.attempt?.end()
      cause.slot?.()
      if (this.#outcome !== undefined) return undefined
      this.workload.resume()
      this.#state = RunState.Running
      this.#moves.refuse(move, error)
      return undefined
    }
    // From here on the state is in the store and nowhere else; it goes wherever it can.
    this.#placement = undefined
    if (move.reason.startsWith('device-')) {
      this.#context.stability.left(standingKey(placement.target))
      this.#homes.drivenFrom(placement.target)
    }
    // Where it must not go is known from the device itself from now on.
    return { ...cause, progress: this.workload.progress, move: move.targetId === undefined ? undefined : move }
  }

  /** Lets go of the target; work that was only interrupted gets a last checkpoint first. */
  async #end(): Promise<void> {
    const placement = this.#placement
    const outcome = this.#outcome
    if (placement !== undefined) {
      const isInterrupted = outcome?.ok === false && outcome.state === RunState.Closed
      if (isInterrupted && placement.loss === undefined) {
        await takeOff(this.#context, this.workload, this.#saver, placement, placement.signal).catch(() => undefined)
      }
      await depart(this.#context, this.workload, placement)
      this.#placement = undefined
    }
  }

  #watchEnd(signal: AbortSignal | undefined): void {
    const { workload } = this
    const abort = (): void => this.#conclude({ ok: false, error: signal?.reason, state: RunState.Closed })
    const forget = (): void => signal?.removeEventListener('abort', abort)
    this.#stop.signal.addEventListener('abort', forget, { once: true })
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort, { once: true })
    workload.finished.then(
      () => this.#conclude({ ok: true }),
      (error: unknown) => {
        const failure = new EGpuError(EGpuErrorCode.WorkloadFailed, `${workload.id} failed: ${messageOf(error)}`, {
          cause: error,
        })
        this.#conclude({ ok: false, error: failure, state: RunState.Failed })
      },
    )
  }

  /** The first outcome counts. */
  #conclude(outcome: Outcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    this.#stop.abort(outcome.ok ? this.#over() : outcome.error)
    this.#wakeup.notify()
  }

  #request(request: MoveRequest): Move {
    const move = this.#moves.add(request)
    this.#wakeup.notify()
    return move
  }

  /** Whoever stops waiting for a move no longer wants it. */
  async #awaitMove(move: Move, signal: AbortSignal | undefined): Promise<void> {
    const cancel = (): void => this.#moves.refuse(move, signal?.reason)
    if (signal?.aborted === true) cancel()
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      await move.done.promise
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  /** Resolves when it next works somewhere, is parked or over. */
  #settled(): Promise<void> {
    return (this.#settling ??= deferred<void>()).promise
  }

  #settle(): void {
    this.#settling?.resolve()
    this.#settling = undefined
  }

  #causeOf(reason: Cause['reason'], from?: ComputeTarget, since: number = this.#now()): Cause {
    return { reason, from, since, progress: this.workload.progress }
  }

  #slot({ reason }: Cause, signal: AbortSignal): Promise<() => void> {
    return this.#context.slots.acquire({ workloadId: this.workload.id, reason, priority: this.#priority }, signal)
  }

  #stays(): readonly Placement[] {
    return [this.#placement, this.#arrivals.arriving].filter((stay) => stay !== undefined)
  }

  #answer(warning: Warning): WarningAnswer {
    try {
      return this.#context.config.strategy.onWarning(warning, this.view)
    } catch {
      return 'wait'
    }
  }

  #over(): EGpuError {
    return new EGpuError(EGpuErrorCode.Closed, `the run of ${this.workload.id} is over`)
  }

  #now(): number {
    return this.#context.host.clock.now()
  }
}
