import type { Checkpointable, ComputeTarget } from '@egpu/core'
import { forbidden } from '../placement/constraints.ts'
import { Wakeup } from '../wakeup.ts'
import { Arrivals } from './arrivals.ts'
import { Cadence } from './cadence.ts'
import { graceMs } from './context.ts'
import type { RunContext } from './context.ts'
import { deferred, quiet } from './deferred.ts'
import type { Deferred } from './deferred.ts'
import { Ending } from './ending.ts'
import { Homes } from './homes.ts'
import { Moves } from './moves.ts'
import { Placer } from './placer.ts'
import { PoisonWatch } from './poison.ts'
import { Recollection } from './recollection.ts'
import { Refusals } from './refusals.ts'
import { Reviews } from './reviews.ts'
import { SaveSchedule } from './save-schedule.ts'
import { Saver } from './saver.ts'
import { Situation } from './situation.ts'
import { Station } from './station.ts'
import { Work } from './work.ts'
import { RunState } from './workload-run.ts'
import type { RunOptions } from './workload-run.ts'

/** What one workload's run is made of. */
export interface RunParts {
  readonly context: RunContext
  readonly work: Work
  readonly station: Station
  readonly saver: Saver
  readonly situation: Situation
  readonly schedule: SaveSchedule
  readonly homes: Homes
  readonly poison: PoisonWatch
  readonly recollection: Recollection
  readonly reviews: Reviews
  readonly arrivals: Arrivals
  readonly placer: Placer
  readonly moves: Moves
  readonly ending: Ending
  readonly wakeup: Wakeup
  /** Settles when it works for the first time, or waits for its store. */
  readonly started: Deferred<ComputeTarget>
}

export function partsOf(context: RunContext, workload: Checkpointable, options: RunOptions): RunParts {
  const { clock } = context.host
  const { migrationTimeoutMs: timeoutMs, checkpointIntervalMs, checkpointOverhead } = context.config
  const { priority = 0, constraints = {}, signal, startOn } = options
  const workloadId = workload.id
  const refusals = new Refusals(
    (target) => forbidden(context.config.constraints, target) ?? forbidden(constraints, target),
  )
  const wakeup = new Wakeup(clock)
  const wake = (): void => wakeup.notify()
  const work = new Work(workload)
  const station = new Station()
  const ending = new Ending(workload, signal, wake)
  const { links } = context
  const saver = new Saver({
    workload,
    checkpoints: context.checkpoints,
    links,
    clock,
    timeoutMs,
    graceMs: graceMs(context),
    report: (event) => {
      if (event.type === 'checkpoint-saved') situation.saved()
      context.report(event)
    },
  })
  const cadence = new Cadence(checkpointOverhead, checkpointIntervalMs)
  const where = (): Station['where'] => station.where
  const situation = new Situation({ context, workload, priority, saver, cadence, refusals, where })
  const history = (): ReturnType<Situation['history']> => situation.history()
  const schedule = new SaveSchedule({ workload, saver, links, clock, cadence, history, wake })
  const homes = new Homes(context, workload, refusals)
  const poison = new PoisonWatch()
  const moves = new Moves(wake)
  const view = (): Situation['view'] => situation.view
  const arrivals = new Arrivals({ context, work, saver, refusals, wake, view, stop: ending.signal, startOn })
  const started = deferred<ComputeTarget>()
  quiet(started.promise)
  const onPark = (): void => {
    station.state = RunState.Parked
    station.settle()
    if (arrivals.storeFailure !== undefined) started.reject(arrivals.storeFailure)
  }
  return {
    context,
    work,
    station,
    saver,
    situation,
    schedule,
    homes,
    poison,
    recollection: new Recollection({ context, workloadId, priority, homes, poison }),
    reviews: new Reviews({ context, workloadId, homes, situation, moves }),
    arrivals,
    placer: new Placer({ context, workloadId, priority, arrivals, moves, ending, wakeup, onPark }),
    moves,
    ending,
    wakeup,
    started,
  }
}
