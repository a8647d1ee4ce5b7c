import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { StagedState, TransferProgress } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { dispose } from '../dispose.ts'
import { asWorkloadFailure, messageOf } from '../failure.ts'
import { precopy } from '../transfer/precopy.ts'
import { Shipment } from '../transfer/shipment.ts'
import type { Attempt } from './attempt.ts'
import type { RunContext } from './context.ts'
import { graceMs } from './context.ts'
import type { Placement } from './placement.ts'
import type { Saver } from './saver.ts'
import type { Work } from './work.ts'

export interface StagedMoveOptions {
  readonly context: RunContext
  readonly work: Work
  readonly saver: Saver
  readonly from: Placement
  readonly to: Placement
  readonly attempt: Attempt
  readonly stop: AbortSignal
  readonly onMoving: () => void
  readonly onProgress: (progress: TransferProgress) => void
}

/**
 * Copies the state to the next target while the work goes on, and stops it only for what is left. Resolves with the
 * progress it was stopped at once the work is on the new target and is this migrator's alone; rejecting, it has left the
 * work on the old one, stopped or not.
 */
export async function moveStaged(options: StagedMoveOptions): Promise<void> {
  const { context, work, saver, from, to, attempt, onMoving, onProgress } = options
  const { workload } = work
  const { clock } = context.host
  const { migrationTimeoutMs, downtimeMs } = context.config
  const signal = AbortSignal.any([options.stop, to.signal])
  const within = <T>(ms: number, what: string, call: (inner: AbortSignal) => Promise<T>): Promise<T> =>
    withDeadline(call, { clock, ms, signal, what: `${what} of ${workload.id}` })
  let staged: StagedState | undefined
  let isAdopted = false
  try {
    const first = await saver.freeze(from, signal)
    const { parts } = first
    dispose(first)
    const stage = (inner: AbortSignal): Promise<StagedState> =>
      workload.stage?.(to.open, parts, { signal: inner }) ?? Promise.reject(new TypeError('it has no stage()'))
    staged = await within(migrationTimeoutMs, 'staging', stage)
    const there = staged
    const tell = (progress: TransferProgress): void => {
      attempt.step('transferring', progress)
      onProgress(progress)
    }
    const shipment = new Shipment({ clock, parts, staged, onProgress: tell })
    await within(Infinity, 'copying ahead', (inner) =>
      stalled(
        options,
        shipment,
        (abort) => precopy({ shipment, freeze: () => saver.freeze(from, abort), signal: abort, downtimeMs }),
        inner,
      ),
    )
    onMoving()
    await within(migrationTimeoutMs, 'moving what is left', async (inner) => {
      await work.suspend(inner)
      attempt.step('frozen')
      const frozen = await saver.freeze(from, inner)
      try {
        shipment.due.add(frozen.changed)
        // Whoever owned the checkpoints before is shut out before the work runs anywhere else.
        await Promise.all([shipment.send(frozen, inner), saver.takeOver()])
      } finally {
        dispose(frozen)
      }
      await shipment.samples.verify(there, inner)
      attempt.step('verified')
      const { progress } = workload
      await there.adopt({ signal: inner })
      isAdopted = true
      if (workload.progress !== progress) {
        const message = `${workload.id} says it is at ${workload.progress} after it was moved at ${progress}`
        throw new EGpuError(EGpuErrorCode.WorkloadFailed, message)
      }
    })
    context.rates.copied(
      to.target.id,
      'toDevice',
      shipment.sentBytes,
      shipment.sentBytes / (shipment.bytesPerMs ?? Infinity),
    )
    attempt.step('committed')
  } catch (error) {
    // It is off the old target and not well on the new one: what is left are its checkpoints.
    if (isAdopted) from.lose({ reason: 'unknown', message: messageOf(error), atMs: clock.now() })
    else if (staged !== undefined) await dropped(context, staged)
    throw asWorkloadFailure(workload.id, 'stage', error)
  }
}

/** Bytes may take as long as they take, but they have to keep coming. */
async function stalled<T>(
  { context, work }: StagedMoveOptions,
  shipment: Shipment,
  run: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { clock } = context.host
  const { migrationTimeoutMs } = context.config
  const inner = new AbortController()
  const abort = AbortSignal.any([signal, inner.signal])
  const over = new AbortController()
  const watch = async (): Promise<never> => {
    for (let before = -1; before !== shipment.sentBytes;) {
      before = shipment.sentBytes
      await clock.sleep(migrationTimeoutMs, { signal: over.signal })
    }
    const late = new EGpuError(
      EGpuErrorCode.Timeout,
      `the state of ${work.workload.id} has not moved for ${migrationTimeoutMs} ms`,
    )
    inner.abort(late)
    throw late
  }
  try {
    return await Promise.race([run(abort), watch()])
  } finally {
    over.abort()
  }
}

async function dropped(context: RunContext, staged: StagedState): Promise<void> {
  const { clock } = context.host
  const drop = async (): Promise<void> => staged[Symbol.asyncDispose]()
  await withDeadline(drop, { clock, ms: graceMs(context), what: 'letting go of a staged copy' }).catch(() => undefined)
}
