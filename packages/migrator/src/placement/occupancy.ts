import type { ComputeTarget } from '@egpu/core'

/** What is placed on a target by one migrator. */
export interface TargetUse {
  /** Workloads there or on their way. */
  readonly workloads: number
  /** Memory they declared to need. */
  readonly bytes: number
}

export const unused: TargetUse = { workloads: 0, bytes: 0 }

/** Books places on targets, so that two workloads never both get the last free memory. */
export class Occupancy {
  readonly #used = new Map<string, TargetUse>()

  of(targetId: string): TargetUse {
    return this.#used.get(targetId) ?? unused
  }

  /** Returns the function that gives the place back; calling it twice is fine. */
  reserve({ id }: ComputeTarget, bytes: number): () => void {
    this.#change(id, 1, bytes)
    let held = true
    return () => {
      if (held) this.#change(id, -1, -bytes)
      held = false
    }
  }

  #change(id: string, workloads: number, bytes: number): void {
    const before = this.of(id)
    const after = { workloads: before.workloads + workloads, bytes: before.bytes + bytes }
    if (after.workloads === 0) this.#used.delete(id)
    else this.#used.set(id, after)
  }
}
