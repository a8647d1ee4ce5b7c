import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable } from '@egpu/core'
import { messageOf } from '../failure.ts'
import { RunState } from './workload-run.ts'

/** How a run ends. */
export type Outcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly error: unknown; readonly state: 'failed' | 'closed' }

/** The end of one run, whoever brings it about: the work, its user, or the migrator. The first outcome counts. */
export class Ending {
  readonly #workloadId: string
  readonly #stop = new AbortController()
  readonly #onEnd: () => void
  #outcome: Outcome | undefined

  constructor(workload: Checkpointable, signal: AbortSignal | undefined, onEnd: () => void) {
    this.#workloadId = workload.id
    this.#onEnd = onEnd
    this.#obey(signal)
    workload.finished.then(
      () => this.#conclude({ ok: true }),
      (error: unknown) => this.fail(`${workload.id} failed: ${messageOf(error)}`, error),
    )
  }

  get outcome(): Outcome | undefined {
    return this.#outcome
  }

  /** Fires with the reason once the run is over. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** It was only interrupted: a later run goes on from its last state. */
  get isInterruption(): boolean {
    return this.#outcome?.ok === false && this.#outcome.state === RunState.Closed
  }

  close(error: unknown = this.closed()): void {
    this.#conclude({ ok: false, error, state: RunState.Closed })
  }

  /** The work cannot go on; its checkpoints are kept. */
  fail(message: string, cause?: unknown): void {
    const error = new EGpuError(EGpuErrorCode.WorkloadFailed, message, cause === undefined ? {} : { cause })
    this.#conclude({ ok: false, error, state: RunState.Failed })
  }

  closed(): EGpuError {
    return new EGpuError(EGpuErrorCode.Closed, `the run of ${this.#workloadId} is over`)
  }

  #obey(signal: AbortSignal | undefined): void {
    if (signal === undefined) return
    const abort = (): void => this.close(signal.reason)
    const forget = (): void => signal.removeEventListener('abort', abort)
    this.#stop.signal.addEventListener('abort', forget, { once: true })
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  }

  #conclude(outcome: Outcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    this.#stop.abort(outcome.ok ? this.closed() : outcome.error)
    this.#onEnd()
  }
}
