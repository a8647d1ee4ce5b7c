import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Checkpointable, ComputeTarget, EGpuDevice, TargetLoss, TransferProgress } from '@egpu/core'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import type { Chronicle } from '../journal/chronicle.ts'
import { journalTarget } from '../journal/journal.ts'
import type { JournalRecord } from '../journal/journal.ts'
import { standingKey } from '../placement/stability.ts'
import type { Warning } from '../strategy.ts'
import { Wakeup } from '../wakeup.ts'
import { Arrivals } from './arrivals.ts'
import { Cadence } from './cadence.ts'
import type { Cause } from './cause.ts'
import { graceMs } from './context.ts'
import type { RunContext } from './context.ts'
import { deferred, quiet } from './deferred.ts'
import type { Deferred } from './deferred.ts'
import { depart, settleWithin, takeOff } from './departure.ts'
import { Ending } from './ending.ts'
import { Homes } from './homes.ts'
import { Moves } from './moves.ts'
import type { Move, MoveRequest } from './moves.ts'
import { Placement } from './placement.ts'
import { Placer } from './placer.ts'
import { PoisonWatch } from './poison.ts'
import { Refusals } from './refusals.ts'
import { relocate } from './relocation.ts'
import type { RelocationOptions } from './relocation.ts'
import { Situation } from './situation.ts'
import { SaveSchedule } from './save-schedule.ts'
import { Saver } from './saver.ts'
import { Work } from './work.ts'
import { RunState } from './workload-run.ts'
import type { RunOptions, WorkloadRun } from './workload-run.ts'

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
  readonly #situation: Situation
  readonly #schedule: SaveSchedule
  readonly #homes: Homes
  readonly #arrivals: Arrivals
  readonly #placer: Placer
  readonly #moves = new Moves()
  readonly #poison = new PoisonWatch()
  readonly #wakeup: Wakeup
  readonly #work: Work
  readonly #ending: Ending
  readonly #started = deferred<ComputeTarget>()
  #state: RunState = RunState.Placing
  #placement: Placement | undefined
  #chronicle: Chronicle | undefined
  #reviewAt = Infinity
  /** A move has made the work stand still since then. */
  #stillSince: number | undefined
  #settling: Deferred<void> | undefined
  /** How far a move is, while one is under way. */
  #transfer: TransferProgress | undefined

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
    this.#work = new Work(workload)
    this.#ending = new Ending(workload, options.signal, wake)
    this.#saver = new Saver({
      workload,
      checkpoints: context.checkpoints,
      clock,
      timeoutMs,
      graceMs: graceMs(context),
      report: (event) => {
        if (event.type === 'checkpoint-saved') this.#situation.saved()
        context.report(event)
      },
    })
    const cadence = new Cadence(checkpointOverhead, checkpointIntervalMs)
    this.#situation = new Situation({
      context,
      workload,
      priority: this.#priority,
      saver: this.#saver,
      cadence,
      refusals,
      where: () => this.where,
    })
    this.#schedule = new SaveSchedule({
      workload,
      saver: this.#saver,
      clock,
      cadence,
      history: () => this.#situation.history(),
      wake,
    })
    this.#homes = new Homes(context, workload, refusals)
    this.#arrivals = new Arrivals({
      context,
      work: this.#work,
      saver: this.#saver,
      refusals,
      wake,
      view: () => this.#situation.view,
      stop: this.#ending.signal,
      startOn: options.startOn,
    })
    this.#placer = new Placer({
      context,
      workloadId: workload.id,
      priority: this.#priority,
      arrivals: this.#arrivals,
      moves: this.#moves,
      ending: this.#ending,
      wakeup: this.#wakeup,
      onPark: () => {
        this.#state = RunState.Parked
        this.#settle()
      },
    })
    quiet(this.#started.promise)
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

  get transfer(): TransferProgress | undefined {
    return this.#state === RunState.Moving || this.#moves.next !== undefined ? this.#transfer : undefined
  }

  /** How long it will probably take to get it off its device; `undefined` before anything of the kind was seen. */
  get leaveMs(): number | undefined {
    const { moveMs, saveMs } = this.#situation.view
    return moveMs ?? saveMs
  }

  checkpoint({ signal }: AbortOptions = {}): Promise<CheckpointRecord> {
    if (this.#ending.outcome !== undefined) return Promise.reject(this.#ending.closed())
    return abandonable(this.#schedule.request(), signal)
  }

  async moveTo(targetId: string, { signal }: AbortOptions = {}): Promise<ComputeTarget> {
    if (this.where?.id !== targetId) {
      const move = this.#request({ reason: 'requested', targetId, mayPark: false })
      await this.#moves.outcome(move, signal)
    }
    const { where } = this
    if (where?.id === targetId) return where
    throw new EGpuError(EGpuErrorCode.MigrationFailed, `${this.workload.id} was moved on from ${targetId} at once`)
  }

  async close(): Promise<void> {
    this.#ending.close()
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

  /** What the link of a device has counted so far. */
  linkErrors(deviceId: string, total: number | undefined): void {
    if (total !== undefined && this.where?.deviceId === deviceId) this.#saver.linkErrors(total)
  }

  /** Asks the strategy what a warning means for this workload, if it is concerned at all. */
  warn(warning: Warning): void {
    const { id } = warning.device
    if (this.where?.deviceId !== id || this.#ending.outcome !== undefined) return
    const answer = this.#situation.answer(warning)
    if (answer === 'checkpoint' || answer === 'shorten') this.#schedule.soon()
    if (answer !== 'move' || this.#moves.isLeaving(id)) return
    const reason = warning.kind === 'leaving' ? 'device-leaving' : 'device-failing'
    // Where it cannot go it stays, with a fresh checkpoint; the failure itself was published.
    this.#request({ reason, offDeviceId: id, mayPark: false }).done.promise.catch(() => this.#schedule.soon())
  }

  /** Resolves once nothing of this workload is on the device; rejects with what keeps it there. */
  async leave(deviceId: string, signal?: AbortSignal): Promise<void> {
    if (this.#ending.outcome !== undefined || !this.#stays().some(({ target }) => target.deviceId === deviceId)) return
    await this.#moves.outcome(this.#request({ reason: 'device-leaving', offDeviceId: deviceId, mayPark: true }), signal)
  }

  /** Targets came or changed. */
  reconsider(): void {
    if (!this.#homes.isAway && this.#state !== RunState.Parked) return
    this.#reviewAt = -Infinity
    this.#wakeup.notify()
  }

  async #live(after: Promise<void> | undefined): Promise<void> {
    await after
    await this.#recall()
    let next: Cause | Placement | undefined = this.#causeOf('requested')
    while (next !== undefined) {
      next = next instanceof Placement ? await this.#attend(next) : await this.#place(next)
    }
    await this.#end()
    const outcome = this.#ending.outcome ?? { ok: true }
    this.#state = outcome.ok ? RunState.Finished : outcome.state
    this.#moves.end()
    this.#settle()
    this.#schedule.end(this.#ending.closed())
    if (outcome.ok) return
    this.#started.reject(outcome.error)
    throw outcome.error
  }

  /** What an earlier process knew of this workload. */
  async #recall(): Promise<void> {
    const memory = await this.#context.memories?.takeUp(this.workload.id, this.#priority)
    this.#chronicle = memory?.chronicle
    const { before } = memory ?? {}
    if (before === undefined) return
    this.#arrivals.recall((before.moving?.to ?? before.where ?? before.last)?.id)
    for (const home of before.homes) this.#homes.drivenFrom(home)
    this.#poison.recall(before.victims, before.victimsSince)
  }

  #remember(change: Partial<JournalRecord>): void {
    this.#chronicle?.note({ ...change, homes: this.#homes.memory, ...this.#poison.memory })
  }

  /** After whoever waits for the end has heard of it: until then the checkpoints are all there is. */
  async #cleanUp(keepCheckpoints: boolean): Promise<void> {
    try {
      await this.finished
      if (!keepCheckpoints) await this.#saver.forget()
      await this.#chronicle?.remove()
    } catch {
      // Work that did not finish keeps its checkpoints, and its entry.
      this.#remember({ where: undefined, moving: undefined })
      await this.#chronicle?.settled()
    }
  }

  async #place(cause: Cause): Promise<Placement | undefined> {
    this.#state = this.#arrivals.isFirst ? RunState.Placing : RunState.Moving
    const placement = await this.#placer.place(cause)
    if (placement !== undefined) this.#arrived(placement, cause)
    return placement
  }

  #arrived(placement: Placement, { move, reason }: Cause): void {
    const { target } = placement
    this.#placement = placement
    this.#state = RunState.Running
    this.#schedule.begin()
    if (move !== undefined && reason === 'requested') this.#homes.forget()
    this.#homes.arrivedAt(target)
    this.#reviewAt = this.#homes.isAway ? -Infinity : this.#situation.reviewAt()
    if (this.#stillSince !== undefined) this.#situation.moved(this.#now() - this.#stillSince)
    this.#stillSince = undefined
    if (move?.targetId !== undefined && move.targetId !== target.id) {
      const message = `${this.workload.id} could not go to ${move.targetId}; it is on ${target.name} now`
      this.#moves.refuse(move, new EGpuError(EGpuErrorCode.MigrationFailed, message))
    }
    this.#remember({ where: journalTarget(target), last: journalTarget(target), moving: undefined })
    this.#moves.settle(target)
    this.#settle()
    this.#started.resolve(target)
  }

  /** Until something has to be done about it, the workload works and is saved now and then. */
  async #attend(placement: Placement): Promise<Cause | Placement | undefined> {
    while (this.#ending.outcome === undefined) {
      if (placement.loss !== undefined) return this.#onFailure(placement, placement.loss)
      const move = this.#moves.next
      if (move !== undefined) {
        const next = await this.#move(placement, move)
        if (next !== undefined) return next
        continue
      }
      this.#schedule.tick(placement)
      if (this.#now() >= this.#reviewAt) {
        this.#reviewAt = Infinity
        await this.#review(placement)
        continue
      }
      await this.#wakeup.wait(Math.min(this.#schedule.dueAt, this.#reviewAt) - this.#now())
    }
    return undefined
  }

  /** Whether it should go back where it came from, or to where it is done sooner. */
  async #review({ target }: Placement): Promise<void> {
    if (this.#homes.isAway) {
      const { go, againAt } = await this.#homes.review(target)
      this.#reviewAt = againAt
      if (go !== undefined) this.#request({ ...go, mayPark: false })
      if (go !== undefined) return
    }
    const again = this.#situation.reviewAt()
    if (again === Infinity) return
    await this.#context.directory.list()
    this.#reviewAt = Math.min(again, this.#reviewAt)
    const { balancing } = this.#context
    const targetId = balancing.size === 0 ? this.#situation.review() : undefined
    if (targetId === undefined) return
    balancing.add(this.workload.id)
    const done = (): boolean => balancing.delete(this.workload.id)
    this.#request({ reason: 'rebalance', targetId, mayPark: false }).done.promise.then(done, done)
  }

  /** Steps 1 to 3 of a loss: it was noticed, the workload lets go, and a commit that was under way may still count. */
  async #onFailure(placement: Placement, loss: TargetLoss): Promise<Cause> {
    this.#state = RunState.Moving
    const { target } = placement
    const cause = this.#causeOf('device-lost', target, placement.lostAt)
    this.#arrivals.noteLoss(target)
    this.#homes.drivenFrom(target)
    this.#context.quarantine.note(standingKey(target), this.workload.id, loss.reason, this.#now())
    this.#poison.lost(target, loss, this.#saver.latest?.progress)
    this.#remember({ where: undefined })
    this.#placement = undefined
    await Promise.all([
      settleWithin(this.#context, this.#saver.saving, graceMs(this.#context)),
      depart(this.#context, this.#work, placement),
    ])
    const { victims } = this.#poison
    if (victims !== undefined) {
      this.#ending.fail(
        `${this.workload.id} was running each time when ${victims.join(', ')} died, and got nowhere; it is stopped, its checkpoints are kept`,
      )
    }
    return cause
  }

  /** A move while the source lives. */
  async #move(placement: Placement, move: Move): Promise<Cause | Placement | undefined> {
    const cause: Cause = { ...this.#causeOf(move.reason, placement.target), move }
    this.#transfer = undefined
    const options = this.#relocation
    const onMoving = (isMoving: boolean): void => {
      options.onMoving(isMoving)
      const to = cause.attempt?.target
      this.#remember({ moving: isMoving ? { reason: move.reason, to: to && journalTarget(to) } : undefined })
    }
    const relocated = await relocate({ ...options, onMoving }, placement, cause, move)
    switch (relocated.how) {
      case 'over':
        return undefined
      case 'stayed':
        this.#moves.refuse(move, relocated.error)
        return undefined
      case 'source-lost': {
        const { attempt, slot } = cause
        return { ...(await this.#onFailure(placement, placement.loss as TargetLoss)), attempt, slot }
      }
      case 'arrived': {
        this.#placement = undefined
        this.#leftInPeace(placement, move)
        cause.slot?.()
        this.#arrived(relocated.placement, cause)
        // So far its newest state is on that target alone.
        this.#schedule.soon()
        return relocated.placement
      }
      case 'left':
    }
    this.#schedule.settle(relocated.record)
    this.#placement = undefined
    this.#leftInPeace(placement, move)
    // Where it must not go is known from the device itself from now on.
    return { ...cause, progress: this.workload.progress, move: move.targetId === undefined ? undefined : move }
  }

  #leftInPeace({ target }: Placement, { reason }: Move): void {
    if (!reason.startsWith('device-')) return
    this.#context.stability.left(standingKey(target))
    this.#homes.drivenFrom(target)
  }

  /** Lets go of the target; work that was only interrupted gets a last checkpoint first. */
  async #end(): Promise<void> {
    const placement = this.#placement
    if (placement === undefined) return
    if (this.#ending.isInterruption && placement.loss === undefined) {
      await takeOff(this.#context, this.#work, this.#saver, placement, placement.signal).catch(() => undefined)
    }
    await depart(this.#context, this.#work, placement)
    this.#placement = undefined
  }

  #request(request: MoveRequest): Move {
    const move = this.#moves.add(request)
    this.#wakeup.notify()
    return move
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

  get #relocation(): RelocationOptions {
    return {
      context: this.#context,
      work: this.#work,
      saver: this.#saver,
      arrivals: this.#arrivals,
      ending: this.#ending,
      slot: (cause, signal) => this.#placer.slot(cause, signal),
      onMoving: (isMoving) => {
        this.#state = isMoving ? RunState.Moving : RunState.Running
        this.#stillSince = isMoving ? this.#now() : undefined
      },
      onProgress: (progress) => {
        this.#transfer = progress
      },
    }
  }

  #stays(): readonly Placement[] {
    return [this.#placement, this.#arrivals.arriving].filter((stay) => stay !== undefined)
  }

  #now(): number {
    return this.#context.host.clock.now()
  }
}
