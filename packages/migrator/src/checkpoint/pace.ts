import type { AbortOptions, Clock } from '@egpu/core'

/** So much may go at once after a pause. */
const burstMs = 100

/** While errors keep coming the rate is halved with each look, down to this share of it. */
const leastShare = 1 / 16

/** After so long without a new error a halving is taken back. */
const calmMs = 10_000

export interface PaceOptions {
  readonly clock: Clock
  /** Most that saving may take of the link. Default: no limit, until errors come. */
  readonly bytesPerSecond?: number | undefined
}

/**
 * How fast state may be drained over a link. Long copies at full speed are what brings weak tunnels down, so the rate
 * falls when the link counts errors and rises again when it has been quiet for a while.
 */
export class Pace {
  readonly #clock: Clock
  readonly #limit: number
  #share = 1
  #errors: number | undefined
  #changedAt: number
  /** When everything that was let through so far will have gone at the present rate. */
  #freeAt = -Infinity
  #measured: number | undefined

  /** `TypeError` for a rate that is not more than 0. */
  constructor({ clock, bytesPerSecond = Infinity }: PaceOptions) {
    if (!(bytesPerSecond > 0)) throw new TypeError(`bytesPerSecond must be more than 0, not ${bytesPerSecond}`)
    this.#clock = clock
    this.#limit = bytesPerSecond
    this.#changedAt = clock.now()
  }

  /** What is let through now; `Infinity` for everything. */
  get bytesPerSecond(): number {
    this.#recover()
    if (this.#share === 1) return this.#limit
    // Without a limit there is still what the link was seen to do.
    const full = Math.min(this.#limit, this.#measured ?? Infinity)
    return full * this.#share
  }

  /** What the link has counted since it was up; more than last time slows down. A count that fell began anew. */
  linkErrors(total: number): void {
    const before = this.#errors
    this.#errors = total
    if (before === undefined || total <= before) return
    this.#recover()
    this.#share = Math.max(leastShare, this.#share / 2)
    this.#changedAt = this.#clock.now()
  }

  /** How fast bytes came, to know what half of it is. */
  observe(bytes: number, ms: number): void {
    if (!(bytes > 0) || !(ms > 0)) return
    const rate = (bytes / ms) * 1_000
    // Slowed down it says nothing about the link.
    if (this.#share === 1) this.#measured = this.#measured === undefined ? rate : 0.7 * this.#measured + 0.3 * rate
  }

  /** Resolves when these bytes may follow the ones before them. */
  async take(bytes: number, { signal }: AbortOptions = {}): Promise<void> {
    const rate = this.bytesPerSecond
    if (rate === Infinity) return
    const now = this.#clock.now()
    this.#freeAt = Math.max(this.#freeAt, now - burstMs) + (bytes / rate) * 1_000
    const waitMs = this.#freeAt - now
    if (waitMs > 0) await this.#clock.sleep(waitMs, { signal })
  }

  #recover(): void {
    const calm = Math.floor((this.#clock.now() - this.#changedAt) / calmMs)
    if (calm < 1 || this.#share === 1) return
    this.#share = Math.min(1, this.#share * 2 ** calm)
    this.#changedAt += calm * calmMs
  }
}
