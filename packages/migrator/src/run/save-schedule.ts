import type { Checkpointable, Clock } from '@egpu/core'
import type { CheckpointRecord } from '../checkpoint/store.ts'
import type { Cadence } from './cadence.ts'
import { deferred } from './deferred.ts'
import type { Deferred } from './deferred.ts'
import type { Placement } from './placement.ts'
import type { Saver } from './saver.ts'
import type { SavingLinks } from './saving-links.ts'

export interface SaveScheduleOptions {
  readonly workload: Checkpointable
  readonly saver: Saver
  readonly links: SavingLinks
  readonly clock: Clock
  readonly cadence: Cadence
  /** Losses of the device that the work is on, and in how long. */
  readonly history: () => { readonly losses: number; readonly observedMs: number }
  /** Something is due, or done. */
  readonly wake: () => void
}

/** When the next checkpoint is due, and who waits for one. */
export class SaveSchedule {
  readonly #options: SaveScheduleOptions
  #dueAt = Infinity
  #waiters: Deferred<CheckpointRecord>[] = []

  constructor(options: SaveScheduleOptions) {
    this.#options = options
  }

  /** Infinity while one is under way, and while there is nothing to save from. */
  get dueAt(): number {
    return this.#dueAt
  }

  /** Resolves with a checkpoint of the work as it is now or later. */
  request(): Promise<CheckpointRecord> {
    const waiter = deferred<CheckpointRecord>()
    this.#waiters.push(waiter)
    this.soon()
    return waiter.promise
  }

  /** Do not wait for the interval. */
  soon(): void {
    if (this.#options.saver.saving === undefined) this.#dueAt = -Infinity
    this.#options.wake()
  }

  /** The work began on a target. */
  begin(): void {
    this.#dueAt = this.#waiters.length > 0 ? -Infinity : this.#options.clock.now() + this.#intervalMs()
  }

  /** Starts a save in the background if one is due and there is anything new. */
  tick(placement: Placement): void {
    const { clock, saver, links, workload, cadence, wake } = this.#options
    const startedAt = clock.now()
    if (startedAt < this.#dueAt) return
    const link = links.of(placement.target)
    const closedUntil = link?.closedUntil(workload.id) ?? -Infinity
    if (closedUntil > startedAt) {
      this.#dueAt = closedUntil
      return
    }
    if (this.#waiters.length === 0 && saver.latest?.progress === workload.progress) {
      this.#dueAt = startedAt + this.#intervalMs()
      link?.done(workload.id)
      return
    }
    this.#dueAt = Infinity
    const waiters = this.#waiters.splice(0)
    const save = saver.save(placement).then(
      (record) => {
        if (saver.cost !== undefined) cadence.observe(saver.cost, placement.target.kind === 'cpu')
        for (const waiter of waiters) waiter.resolve(record)
      },
      (error: unknown) => {
        // Whoever waits for a checkpoint gets it from the next target, unless it was the save itself that failed.
        if (placement.signal.aborted) this.#waiters.unshift(...waiters)
        else waiters.forEach((waiter) => waiter.reject(error))
      },
    )
    void save.then(() => {
      const now = clock.now()
      // A link that is busy all the time with saving is of no use for working.
      this.#dueAt = this.#waiters.length > 0 ? now : Math.max(startedAt + this.#intervalMs(), now + (now - startedAt))
      wake()
    })
  }

  #intervalMs(): number {
    const { losses, observedMs } = this.#options.history()
    return this.#options.cadence.intervalMs(losses, observedMs)
  }

  /** A checkpoint was taken outside the schedule. */
  settle(record: CheckpointRecord): void {
    for (const waiter of this.#waiters.splice(0)) waiter.resolve(record)
  }

  end(error: unknown): void {
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error)
  }
}
