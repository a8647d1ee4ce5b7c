import type { Checkpointable, Clock } from '@egpu/core'
import { messageOf } from '../failure.ts'
import type { Placement } from './placement.ts'

/** The calls that set one workload to work and stop it, kept to its contract: it is never set to work while it works. */
export class Work {
  readonly workload: Checkpointable
  #isWorking = false

  constructor(workload: Checkpointable) {
    this.workload = workload
  }

  get isWorking(): boolean {
    return this.#isWorking
  }

  /** Throws what the workload throws. One that answers with a promise may fail later: `onFailure` hears of that. */
  resume(onFailure: (error: unknown) => void): void {
    if (this.#isWorking) return
    const going: unknown = this.workload.resume()
    this.#isWorking = true
    if (going instanceof Promise) going.catch(onFailure)
  }

  /** From the call on it counts as stopped: if it fails or never comes back, `resume` is what undoes it. */
  async suspend(signal: AbortSignal): Promise<void> {
    this.#isWorking = false
    await this.workload.suspend({ signal })
  }

  async release(signal: AbortSignal, lost: boolean): Promise<void> {
    this.#isWorking = false
    await this.workload.release({ signal, lost })
  }
}

/** Takes the stay for lost when the work there could not be set going. */
export function couldNotGoOn({ workload }: Work, placement: Placement, clock: Clock): (error: unknown) => void {
  return (error) => {
    const message = `${workload.id} could not go on: ${messageOf(error)}`
    placement.lose({ reason: 'unknown', message, atMs: clock.now() })
  }
}
