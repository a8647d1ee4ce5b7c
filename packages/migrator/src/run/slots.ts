import type { MigrationInfo } from '@egpu/core'

/** A workload that waits for its turn to move. */
export interface QueuedMigration {
  readonly workloadId: string
  readonly reason: MigrationInfo['reason']
  readonly priority: number
}

/** Work that stands still goes before work that still runs. */
const urgency: Readonly<Record<MigrationInfo['reason'], number>> = {
  'device-lost': 3,
  'device-leaving': 2,
  'device-failing': 1,
  requested: 0,
  returned: 0,
  rebalance: 0,
}

interface Waiter extends QueuedMigration {
  enter(): void
}

/** Lets so many migrations through at once, the most urgent first, then by priority, then in order of arrival. */
export class Slots {
  #free: number
  readonly #waiting: Waiter[] = []

  constructor(count: number) {
    this.#free = count
  }

  get queue(): readonly QueuedMigration[] {
    return this.#waiting.map(({ workloadId, reason, priority }) => ({ workloadId, reason, priority }))
  }

  /** Resolves with the function that gives the slot back; calling it twice is fine. */
  acquire(migration: QueuedMigration, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        reject(signal.reason)
      }
      const waiter: Waiter = {
        ...migration,
        enter: () => {
          signal.removeEventListener('abort', leave)
          let held = true
          resolve(() => {
            if (held) this.#release()
            held = false
          })
        },
      }
      if (this.#free > 0) {
        this.#free -= 1
        waiter.enter()
        return
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.splice(this.#placeOf(waiter), 0, waiter)
    })
  }

  #release(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free += 1
    else next.enter()
  }

  /** Behind everyone who is as urgent: by bisection, because a storm makes thousands wait. */
  #placeOf(waiter: Waiter): number {
    let low = 0
    let high = this.#waiting.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (isBefore(waiter, this.#waiting[middle] as Waiter)) high = middle
      else low = middle + 1
    }
    return low
  }
}

function isBefore(a: Waiter, b: Waiter): boolean {
  return urgency[a.reason] === urgency[b.reason] ? a.priority > b.priority : urgency[a.reason] > urgency[b.reason]
}
