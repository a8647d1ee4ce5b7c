import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { journalTarget } from '../journal/journal.ts'
import { causeOf } from './cause.ts'
import type { Cause } from './cause.ts'
import { depart, takeOff } from './departure.ts'
import { Leaving } from './leaving.ts'
import type { Next } from './leaving.ts'
import type { RunParts } from './parts.ts'
import { Placement } from './placement.ts'
import { RunState } from './workload-run.ts'

/**
 * One workload's life: a single loop places it, attends to it and takes it off, so there is never more than one
 * recovery under way and never more than one target in charge. Everything else only leaves the loop a note and wakes it.
 */
export class Life {
  readonly #parts: RunParts
  readonly #leaving: Leaving
  /** A move has made the work stand still since then. */
  #stillSince: number | undefined

  constructor(parts: RunParts) {
    this.#parts = parts
    this.#leaving = new Leaving({
      parts,
      onStill: (isStill) => {
        this.#stillSince = isStill ? this.#now() : undefined
      },
      onArrived: (placement, cause) => this.#arrived(placement, cause),
    })
  }

  /** Resolves when all work is done. `after`: an earlier run of it that is still being cleaned up. */
  async live(after: Promise<void> | undefined): Promise<void> {
    const { work, station, arrivals, recollection, moves, schedule, ending, started } = this.#parts
    await after
    arrivals.recall(await recollection.recall())
    let next: Next = causeOf(work, 'requested', this.#now())
    while (next !== undefined) {
      next = next instanceof Placement ? await this.#attend(next) : await this.#place(next)
    }
    await this.#end()
    const outcome = ending.outcome ?? { ok: true }
    station.state = outcome.ok ? RunState.Finished : outcome.state
    moves.end()
    station.settle()
    schedule.end(ending.closed())
    if (outcome.ok) return
    started.reject(outcome.error)
    throw outcome.error
  }

  async #place(cause: Cause): Promise<Placement | undefined> {
    const { station, arrivals, placer, situation } = this.#parts
    station.state = arrivals.isFirst ? RunState.Placing : RunState.Moving
    const placement = await placer.place(cause)
    if (placement === undefined) return undefined
    situation.saved()
    this.#arrived(placement, cause)
    return placement
  }

  #arrived(placement: Placement, { move, reason }: Cause): void {
    const { work, station, homes, schedule, reviews, situation, moves, recollection, started } = this.#parts
    const { target } = placement
    station.placement = placement
    station.state = RunState.Running
    schedule.begin()
    if (move !== undefined && reason === 'requested') homes.forget()
    homes.arrivedAt(target)
    reviews.begin()
    if (this.#stillSince !== undefined) situation.moved(this.#now() - this.#stillSince)
    this.#stillSince = undefined
    if (move?.targetId !== undefined && move.targetId !== target.id) {
      const message = `${work.workload.id} could not go to ${move.targetId}; it is on ${target.name} now`
      moves.refuse(move, new EGpuError(EGpuErrorCode.MigrationFailed, message))
    }
    recollection.note({ where: journalTarget(target), last: journalTarget(target), moving: undefined })
    moves.settle(target)
    station.settle()
    started.resolve(target)
  }

  /** Until something has to be done about it, the workload works and is saved now and then. */
  async #attend(placement: Placement): Promise<Next> {
    const { moves, schedule, reviews, ending, wakeup } = this.#parts
    while (ending.outcome === undefined) {
      if (placement.loss !== undefined) return this.#leaving.afterLoss(placement)
      const move = moves.next
      if (move !== undefined) {
        const next = await this.#leaving.move(placement, move)
        if (next !== undefined) return next
        continue
      }
      schedule.tick(placement)
      if (this.#now() >= reviews.dueAt) {
        await reviews.look(placement.target)
        continue
      }
      await wakeup.wait(Math.min(schedule.dueAt, reviews.dueAt) - this.#now())
    }
    return undefined
  }

  /** Lets go of the target; work that was only interrupted gets a last checkpoint first. */
  async #end(): Promise<void> {
    const { context, work, station, saver, ending } = this.#parts
    const { placement } = station
    if (placement === undefined) return
    if (ending.isInterruption && placement.loss === undefined) {
      await takeOff(context, work, saver, placement, placement.signal).catch(() => undefined)
    }
    await depart(context, work, placement)
    station.placement = undefined
    context.links.of(placement.target)?.done(work.workload.id)
  }

  #now(): number {
    return this.#parts.context.host.clock.now()
  }
}
