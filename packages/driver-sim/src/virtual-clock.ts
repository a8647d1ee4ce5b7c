import { EGpuError, EGpuErrorCode, systemClock } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { macrotask } from './macrotask.ts'

interface Sleeper {
  readonly dueMs: number
  /** Registration order; breaks ties, so that two runs wake sleepers in the same order. */
  readonly sequence: number
  wake(): void
}

/** A day. A run that needs more virtual time than this without an end in sight has most likely a timer that re-arms. */
const defaultLimitMs = 86_400_000

/** Real time that `runUntil` waits for work outside the clock before it calls the wait endless. */
const outsideWorkMs = 2_000

/**
 * Time that stands still until it is told to move. One of `advance`, `run` and `runUntil` drives it at a time; between
 * two sleepers all promise callbacks run, so the same program takes the same path every time. Work that takes real
 * time (hashing in a worker, a file) belongs in `hold`, or the clock may move on while it runs.
 */
export class VirtualClock implements Clock {
  #nowMs = 0
  #sequence = 0
  /** By due time, then by order of registration. */
  readonly #sleepers: Sleeper[] = []
  readonly #held = new Set<Promise<unknown>>()
  #driving = false

  now(): number {
    return this.#nowMs
  }

  /** How many sleeps are pending that will end. */
  get sleeping(): number {
    return this.#sleepers.length
  }

  /** When the next sleeper wakes; `undefined` when nobody sleeps. */
  get nextMs(): number | undefined {
    return this.#sleepers[0]?.dueMs
  }

  /** `Infinity` sleeps until the signal aborts; less than 0 counts as 0; `TypeError` for NaN. */
  sleep(ms: number, { signal }: AbortOptions = {}): Promise<void> {
    if (Number.isNaN(ms)) return Promise.reject(new TypeError('cannot sleep for NaN milliseconds'))
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      const abort = (): void => {
        this.#remove(sleeper)
        reject(signal?.reason)
      }
      const sleeper: Sleeper = {
        dueMs: this.#nowMs + Math.max(0, ms),
        sequence: (this.#sequence += 1),
        wake: () => {
          signal?.removeEventListener('abort', abort)
          resolve()
        },
      }
      if (sleeper.dueMs < Infinity) this.#sleepers.splice(this.#placeOf(sleeper), 0, sleeper)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  /** Keeps time still until `work` settles, and settles like it. For what runs outside the clock: a hash, a file. */
  async hold<T>(work: Promise<T>): Promise<T> {
    this.#held.add(work)
    try {
      return await work
    } finally {
      this.#held.delete(work)
    }
  }

  /** Moves time on by `ms`, waking everybody due on the way. */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0) || ms === Infinity) throw new TypeError(`can advance by 0 or more milliseconds, not ${ms}`)
    const endMs = this.#nowMs + ms
    await this.#drive(async () => {
      while (await this.#wakeNext(endMs));
      this.#nowMs = endMs
    })
  }

  /**
   * Moves time on until nobody sleeps any more: there is nothing left to do. Rejects with `EGPU_TIMEOUT` when sleepers
   * keep coming for longer than `limitMs` (a day) of virtual time; a monitor that polls for ever is one.
   */
  async run({ limitMs = defaultLimitMs }: { readonly limitMs?: number | undefined } = {}): Promise<void> {
    const endMs = this.#nowMs + limitMs
    await this.#drive(async () => {
      while (await this.#wakeNext(endMs));
    })
    if (this.#sleepers.length > 0) throw this.#overrun(limitMs)
  }

  /**
   * Moves time on until `work` settles, and settles like it; time stops there. Rejects with `EGPU_TIMEOUT` when nobody
   * sleeps and `work` is still pending: it would wait for ever.
   */
  async runUntil<T>(
    work: Promise<T>,
    { limitMs = defaultLimitMs }: { readonly limitMs?: number | undefined } = {},
  ): Promise<T> {
    let settled = false
    const settle = (): void => {
      settled = true
    }
    work.then(settle, settle)
    const endMs = this.#nowMs + limitMs
    await this.#drive(async () => {
      await this.#settleOutside()
      while (await this.#wakeNext(endMs, () => settled));
      if (!settled && this.#sleepers.length === 0) await this.#waitForOutsideWork(() => settled, endMs)
    })
    if (settled) return work
    if (this.#sleepers.length > 0) throw this.#overrun(limitMs)
    throw new EGpuError(
      EGpuErrorCode.Timeout,
      `nothing is left to happen at ${this.#nowMs} ms of virtual time, yet the work is still pending: ` +
        'it waits for something that will never come',
    )
  }

  async #drive(body: () => Promise<void>): Promise<void> {
    if (this.#driving) throw new TypeError('the virtual clock is driven already; await that call first')
    this.#driving = true
    try {
      await body()
    } finally {
      this.#driving = false
    }
  }

  /** Wakes the next sleeper due by `endMs`; false when there is none. */
  async #wakeNext(endMs: number, stop?: () => boolean): Promise<boolean> {
    await this.#settleOutside()
    if (stop?.() === true) return false
    const next = this.#sleepers[0]
    if (next === undefined || next.dueMs > endMs) return false
    this.#sleepers.shift()
    this.#nowMs = next.dueMs
    next.wake()
    return true
  }

  /** Lets all promise callbacks run, then everything that is held. */
  async #settleOutside(): Promise<void> {
    await macrotask()
    while (this.#held.size > 0) {
      await Promise.allSettled(this.#held)
      await macrotask()
    }
  }

  /** Work outside the clock that nobody put in `hold` gets a moment of real time before it counts as never coming. */
  async #waitForOutsideWork(settled: () => boolean, endMs: number): Promise<void> {
    const startedMs = performance.now()
    while (!settled() && performance.now() - startedMs < outsideWorkMs) {
      await systemClock.sleep(1)
      while (await this.#wakeNext(endMs, settled));
    }
  }

  #placeOf(sleeper: Sleeper): number {
    let low = 0
    let high = this.#sleepers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = this.#sleepers[middle] as Sleeper
      const before = other.dueMs < sleeper.dueMs || (other.dueMs === sleeper.dueMs && other.sequence < sleeper.sequence)
      if (before) low = middle + 1
      else high = middle
    }
    return low
  }

  #remove(sleeper: Sleeper): void {
    const place = this.#placeOf(sleeper)
    if (this.#sleepers[place] === sleeper) this.#sleepers.splice(place, 1)
  }

  #overrun(limitMs: number): EGpuError {
    return new EGpuError(
      EGpuErrorCode.Timeout,
      `${this.#sleepers.length} sleepers are still pending after ${limitMs} ms of virtual time`,
    )
  }
}
