import type { Checkpointable } from '@egpu/core'

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

  resume(): void {
    if (this.#isWorking) return
    this.workload.resume()
    this.#isWorking = true
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
