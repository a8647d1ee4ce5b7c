import type { Clock } from '@egpu/core'

/** What workloads do that find no target: go on where they are, or wait. */
export type Plight = 'working' | 'parked'

/** What has changed about it is told no more often: with many devices coming and going the reasons change all the time. */
const tellAgainMs = 60_000

/** Says when to publish why a workload finds no target: it looks often. */
export class Notice {
  readonly #clock: Clock
  #told: { readonly plight: Plight; readonly message: string; readonly atMs: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether this is to be told now: it is new, worse than what was told, or different since a while. */
  isDue(plight: Plight, message: string): boolean {
    const told = this.#told
    const now = this.#clock.now()
    const isWorse = plight === 'parked' && told?.plight === 'working'
    const isNews = told !== undefined && told.message !== message && now - told.atMs >= tellAgainMs
    if (told !== undefined && !isWorse && !isNews) return false
    this.#told = { plight, message, atMs: now }
    return true
  }

  /** There is a target again. */
  over(): void {
    this.#told = undefined
  }
}
