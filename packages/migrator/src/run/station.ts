import type { ComputeTarget, TransferProgress } from '@egpu/core'
import { deferred } from './deferred.ts'
import type { Deferred } from './deferred.ts'
import type { Placement } from './placement.ts'
import { RunState } from './workload-run.ts'

/** Where one workload is, and what it is doing there. */
export class Station {
  state: RunState = RunState.Placing
  placement: Placement | undefined
  /** How far the latest move came. */
  transfer: TransferProgress | undefined
  #settling: Deferred<void> | undefined

  get where(): ComputeTarget | undefined {
    return this.placement?.target
  }

  /** Resolves when it next works somewhere, is parked or over. */
  settled(): Promise<void> {
    return (this.#settling ??= deferred<void>()).promise
  }

  settle(): void {
    this.#settling?.resolve()
    this.#settling = undefined
  }
}
