import type { CheckpointRecord } from '../checkpoint/store.ts'
import { withDeadline } from '../deadline.ts'
import { asWorkloadFailure } from '../failure.ts'
import { graceMs } from './context.ts'
import type { RunContext } from './context.ts'
import type { Placement } from './placement.ts'
import type { Saver } from './saver.ts'
import type { Work } from './work.ts'

/**
 * Stops the work and commits its last state, while its target lives. Rejects when that failed or took longer than
 * `migrationTimeoutMs`; a `resume` then undoes it.
 */
export async function takeOff(
  context: RunContext,
  work: Work,
  saver: Saver,
  placement: Placement,
  stop: AbortSignal,
): Promise<CheckpointRecord> {
  const { workload } = work
  const ms = context.config.migrationTimeoutMs
  // What can be saved while the work goes on need not be saved while it stands still.
  saver.hurry()
  await settleWithin(context, saver.saving, ms)
  const bring = async (signal: AbortSignal): Promise<CheckpointRecord> => {
    await work.suspend(signal)
    signal.throwIfAborted()
    const { latest } = saver
    return latest?.progress === workload.progress ? latest : saver.save(placement, { signal, isUrgent: true })
  }
  const what = `taking ${workload.id} off ${placement.target.name}`
  try {
    return await withDeadline(bring, { clock: context.host.clock, ms, signal: stop, what })
  } catch (error) {
    throw asWorkloadFailure(workload.id, 'suspend', error)
  }
}

/** Has the workload let go of its target and closes it, without waiting for a device that does not answer. */
export async function depart(context: RunContext, work: Work, placement: Placement): Promise<void> {
  await release(context, work, placement)
  await placement.end(graceMs(context))
}

export function release(context: RunContext, work: Work, placement: Placement): Promise<void> {
  const lost = placement.loss !== undefined
  return withDeadline((signal) => work.release(signal, lost), {
    clock: context.host.clock,
    ms: graceMs(context),
    what: `release of ${work.workload.id}`,
  }).catch(() => undefined)
}

/** Waits until `work` has settled either way, but no longer than `ms`. */
export async function settleWithin(context: RunContext, work: Promise<unknown> | undefined, ms: number): Promise<void> {
  if (work === undefined) return
  const { clock } = context.host
  await withDeadline(() => work, { clock, ms, what: 'what is under way' }).catch(() => undefined)
}
