import type { ComputeTarget } from '@egpu/core'
import { journalTarget } from '../journal/journal.ts'
import { standingKey } from '../placement/stability.ts'
import { causeOf } from './cause.ts'
import type { Cause } from './cause.ts'
import { graceMs } from './context.ts'
import { depart, settleWithin } from './departure.ts'
import type { Move } from './moves.ts'
import type { RunParts } from './parts.ts'
import type { Placement } from './placement.ts'
import { relocate } from './relocation.ts'
import { RunState } from './workload-run.ts'

/** What comes next: the search for another target, the stay on one, or nothing. */
export type Next = Cause | Placement | undefined

export interface LeavingOptions {
  readonly parts: RunParts
  /** The work stands still from now on, or no longer. */
  readonly onStill: (isStill: boolean) => void
  /** It works on the next target already. */
  readonly onArrived: (placement: Placement, cause: Cause) => void
}

/** How work comes off a target: because that was lost, or because somebody wants it elsewhere while it lives. */
export class Leaving {
  readonly #options: LeavingOptions

  constructor(options: LeavingOptions) {
    this.#options = options
  }

  /** Steps 1 to 3 of a loss: it was noticed, the workload lets go, and a commit that was under way may still count. */
  async afterLoss(placement: Placement): Promise<Cause> {
    const { context, work, station, saver, homes, poison, arrivals, recollection, ending } = this.#options.parts
    const { workload } = work
    const { target } = placement
    station.state = RunState.Moving
    const cause = causeOf(work, 'device-lost', placement.lostAt ?? context.host.clock.now(), target)
    arrivals.noteLoss(target)
    homes.drivenFrom(target)
    recollection.note({ where: undefined })
    this.#off(target)
    await Promise.all([settleWithin(context, saver.saving, graceMs(context)), depart(context, work, placement)])
    // What was heard first may be only that it is gone; why is known by now, if at all.
    const reason = placement.loss?.reason ?? 'unknown'
    context.past.died(standingKey(target), workload.id, reason)
    poison.lost(target, reason, saver.latest?.progress)
    recollection.note({})
    const { victims } = poison
    if (victims !== undefined) {
      ending.fail(
        `${workload.id} was running each time when ${victims.join(', ')} died, and got nowhere; it is stopped, its checkpoints are kept`,
      )
    }
    return cause
  }

  /** A move while the source lives; `undefined` where the work stays, or is over. */
  async move(placement: Placement, move: Move): Promise<Next> {
    const { parts, onStill, onArrived } = this.#options
    const { context, work, station, saver, schedule, arrivals, moves, recollection, placer, ending } = parts
    const cause: Cause = { ...causeOf(work, move.reason, context.host.clock.now(), placement.target), move }
    station.transfer = undefined
    const onMoving = (isMoving: boolean): void => {
      station.state = isMoving ? RunState.Moving : RunState.Running
      onStill(isMoving)
      const to = cause.attempt?.target
      recollection.note({ moving: isMoving ? { reason: move.reason, to: to && journalTarget(to) } : undefined })
    }
    const relocated = await relocate(
      {
        context,
        work,
        saver,
        arrivals,
        ending,
        slot: (of, signal) => placer.slot(of, signal),
        onMoving,
        onProgress: (progress) => {
          station.transfer = progress
        },
      },
      placement,
      cause,
      move,
    )
    switch (relocated.how) {
      case 'over':
        return undefined
      case 'stayed':
        moves.refuse(move, relocated.error)
        return undefined
      case 'source-lost': {
        const { attempt, slot } = cause
        return { ...(await this.afterLoss(placement)), attempt, slot }
      }
      case 'arrived': {
        this.#leftInPeace(placement.target, move)
        cause.slot?.()
        onArrived(relocated.placement, cause)
        // So far its newest state is on that target alone.
        schedule.soon()
        return relocated.placement
      }
      case 'left':
    }
    schedule.settle(relocated.record)
    this.#leftInPeace(placement.target, move)
    // Where it must not go is known from the device itself from now on.
    return { ...cause, progress: work.workload.progress, move: move.targetId === undefined ? undefined : move }
  }

  #leftInPeace(target: ComputeTarget, { reason }: Move): void {
    this.#off(target)
    if (!reason.startsWith('device-')) return
    const { context, homes } = this.#options.parts
    context.stability.left(standingKey(target))
    homes.drivenFrom(target)
  }

  /** Nothing of it has to be saved from there any more. */
  #off(target: ComputeTarget): void {
    const { context, station, work } = this.#options.parts
    station.placement = undefined
    context.links.of(target)?.done(work.workload.id)
  }
}
