import type { Clock, TransferProgress } from '@egpu/core'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import type { Arrivals } from './arrivals.ts'
import type { Cause } from './cause.ts'
import { graceMs } from './context.ts'
import type { RunContext } from './context.ts'
import { depart, settleWithin, takeOff } from './departure.ts'
import type { Ending } from './ending.ts'
import type { Move } from './moves.ts'
import type { Placement } from './placement.ts'
import type { Saver } from './saver.ts'
import { moveStaged } from './staged-move.ts'
import { couldNotGoOn } from './work.ts'
import type { Work } from './work.ts'

/** How a move off a target that lives ended. */
export type Relocated =
  /** It works on the next target already. */
  | { readonly how: 'arrived'; readonly placement: Placement }
  /** The work is off the source; its state is in the store and nowhere else. */
  | { readonly how: 'left'; readonly record: CheckpointRecord }
  /** The source died before the work was off it. What `cause` holds by then is as good as any. */
  | { readonly how: 'source-lost' }
  /** Nothing has changed: it works on where it was. */
  | { readonly how: 'stayed'; readonly error: unknown }
  /** The run ended first. */
  | { readonly how: 'over' }

export interface RelocationOptions {
  readonly context: RunContext
  readonly work: Work
  readonly saver: Saver
  readonly arrivals: Arrivals
  readonly ending: Ending
  /** Waits for the right to migrate. */
  readonly slot: (cause: Cause, signal: AbortSignal) => Promise<() => void>
  /** The work stands still from now on, or no longer. */
  readonly onMoving: (isMoving: boolean) => void
  readonly onProgress: (progress: TransferProgress) => void
}

/**
 * A move while the source lives, as a transaction: the source keeps the work until the work's last state is committed.
 * Fills `cause` with what it holds; whatever fails is undone, and the work goes on where it was.
 */
export async function relocate(
  options: RelocationOptions,
  placement: Placement,
  cause: Cause,
  move: Move,
): Promise<Relocated> {
  const { context, work, saver, arrivals, ending, slot, onMoving } = options
  const stop = AbortSignal.any([placement.signal, ending.signal])
  try {
    cause.slot = await slot(cause, stop)
    await arrivals.openAhead(cause, stop)
    if (cause.attempt === undefined && !move.mayPark) throw arrivals.noTarget
    const there = await staged(options, placement, cause, stop)
    if (there !== undefined) return { how: 'arrived', placement: there }
    onMoving(true)
    const record = await takeOff(context, work, saver, placement, stop)
    cause.attempt?.step('frozen')
    await depart(context, work, placement)
    cause.attempt?.step('released')
    return { how: 'left', record }
  } catch (error) {
    if (ending.outcome === undefined && placement.loss === undefined) goOn(work, placement, context.host.clock)
    if (ending.outcome === undefined && placement.loss !== undefined) return { how: 'source-lost' }
    if (ending.outcome === undefined) {
      cause.attempt?.step('rolled-back')
      cause.attempt?.fail(error)
    }
    cause.attempt?.end()
    cause.slot?.()
    if (ending.outcome !== undefined) return { how: 'over' }
    onMoving(false)
    return { how: 'stayed', error }
  }
}

/** The short way, for work that can be copied while it goes on; `undefined` where it has to be the long one. */
async function staged(
  { context, work, saver, arrivals, onMoving, onProgress }: RelocationOptions,
  from: Placement,
  { attempt, progress }: Cause,
  stop: AbortSignal,
): Promise<Placement | undefined> {
  if (work.workload.stage === undefined || attempt === undefined) return undefined
  saver.hurry()
  await settleWithin(context, saver.saving, context.config.migrationTimeoutMs)
  const to = await attempt.open(stop, arrivals.wake)
  await moveStaged({
    context,
    work,
    saver,
    from,
    to,
    attempt,
    stop,
    onMoving: () => onMoving(true),
    onProgress,
  })
  await from.end(graceMs(context))
  attempt.step('released')
  arrivals.arrived(attempt, to, progress)
  return to
}

/** Work that cannot be set going again is taken for lost with its target: its checkpoints are what is left. */
function goOn(work: Work, placement: Placement, clock: Clock): void {
  const onFailure = couldNotGoOn(work, placement, clock)
  try {
    work.resume(onFailure)
  } catch (error) {
    onFailure(error)
  }
}
