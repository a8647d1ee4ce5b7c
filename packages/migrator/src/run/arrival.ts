import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { MigrationStep, SavedState } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { asWorkloadFailure } from '../failure.ts'
import type { RunContext } from './context.ts'
import { depart, release } from './departure.ts'
import type { Placement } from './placement.ts'
import type { Saver } from './saver.ts'
import { couldNotGoOn } from './work.ts'
import type { Work } from './work.ts'

/**
 * Restores the newest checkpoint that can be read onto an open target, goes on to an older one where a newer turns out
 * to be corrupt, and sets the workload to work. Rejects when the target was lost meanwhile, when `deadlineMs` passed or
 * the workload failed; the workload has then been told to let go of the target.
 */
export async function arrive(
  context: RunContext,
  work: Work,
  saver: Saver,
  placement: Placement,
  stop: AbortSignal,
  onStep: (step: MigrationStep) => void,
): Promise<void> {
  const { workload } = work
  const { clock } = context.host
  const endsAt = clock.now() + context.config.migrationTimeoutMs
  const signal = AbortSignal.any([placement.signal, stop])
  const restore = (state: SavedState | undefined): Promise<void> =>
    withDeadline(
      (inner) => {
        saver.restored()
        return workload.restore(placement.open, state, { signal: inner })
      },
      {
        clock,
        ms: endsAt - clock.now(),
        signal,
        what: `restore of ${workload.id} on ${placement.target.name}`,
      },
    )
  let doing = 'restore'
  try {
    const letGo = (): Promise<void> => release(context, work, placement)
    onStep('transferring')
    const restored = restoreNewest(workload, saver, restore, letGo).then(() => onStep('restored'))
    await Promise.all([restored, saver.takeOver()])
    signal.throwIfAborted()
    onStep('committed')
    doing = 'resume'
    work.resume(couldNotGoOn(work, placement, clock))
  } catch (error) {
    await depart(context, work, placement)
    throw asWorkloadFailure(workload.id, doing, error)
  }
}

async function restoreNewest(
  workload: Work['workload'],
  saver: Saver,
  restore: (state: SavedState | undefined) => Promise<void>,
  letGo: () => Promise<void>,
): Promise<void> {
  for await (const state of saver.restorable()) {
    try {
      await restore(state)
    } catch (error) {
      if (state.failure === undefined) throw error
      if (state.failure.code !== EGpuErrorCode.CheckpointCorrupt) throw state.failure
      saver.distrust(state.record, state.failure)
      await letGo()
      continue
    }
    if (workload.progress === state.progress) return
    throw new EGpuError(
      EGpuErrorCode.WorkloadFailed,
      `${workload.id} says it is at ${workload.progress} after restoring a checkpoint of ${state.progress}`,
    )
  }
  await restore(undefined)
}
