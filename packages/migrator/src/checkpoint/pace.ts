import type { AbortOptions, Clock } from '@egpu/core'
import { noLonger, sleepUnless } from '../deadline.ts'

/** So much may go at once after a pause. */
const burstMs = 100

/** While errors keep coming the rate is halved with each look, down to this share of it. */
const leastShare = 1 / 16

/** After so long without a new error a halving is taken back. */
const calmMs = 10_000

/** What is known of a link. */
export interface PaceLimits {
  /** Most that saving may take of it. Default: no limit, until errors come. */
  readonly bytesPerSecond?: number | undefined
  /** What it carries, for as long as nothing was seen of it. */
  readonly linkBytesPerSecond?: number | undefined
}

export interface PaceOptions extends PaceLimits {
  readonly clock: Clock
}

/**
 * How fast state may be drained over a link. Long copies at full speed are what brings weak tunnels down, so the rate
 * falls when the link counts errors and rises again when it has been quiet for a while.
 */
export class Pace {
  readonly #clock: Clock
  #limit = Infinity
  #link: number | undefined
  #share = 1
  readonly #errors = new Map<string, number>()
  #changedAt: number
  /** When everything that was let through so far will have gone at the present rate. */
  #freeAt = -Infinity
  #measured: number | undefined
  #rushes = 0
  /** Fires for those that wait when there is no time left for it. */
  #hurry = new AbortController()

  /** `TypeError` for a rate that is not more than 0. */
  constructor({ clock, ...limits }: PaceOptions) {
    this.#clock = clock
    this.#changedAt = clock.now()
    this.adjust(limits)
  }

  /** Replaces what is known of the link. `TypeError` for a rate that is not more than 0. */
  adjust({ bytesPerSecond = Infinity, linkBytesPerSecond }: PaceLimits): void {
    if (!(bytesPerSecond > 0)) throw new TypeError(`bytesPerSecond must be more than 0, not ${bytesPerSecond}`)
    this.#limit = bytesPerSecond
    this.#link = linkBytesPerSecond
  }

  /** What is let through now; `Infinity` for everything. */
  get bytesPerSecond(): number {
    this.#recover()
    const limit = this.#rushes > 0 ? Infinity : this.#limit
    if (this.#share === 1) return limit
    // Without a limit there is still what the link was seen to do.
    return Math.min(limit, this.#seen ?? Infinity) * this.#share
  }

  /** What would come through in a rush; `undefined` while nothing is known of the link. */
  get expectedBytesPerSecond(): number | undefined {
    this.#recover()
    return this.#seen === undefined ? undefined : this.#seen * this.#share
  }

  /**
   * What the link has counted since it was up; more than last time slows down. A count that fell began anew. `source`
   * tells several who count the same link apart.
   */
  linkErrors(total: number, source: string = ''): void {
    const before = this.#errors.get(source)
    this.#errors.set(source, total)
    if (before === undefined || total <= before) return
    this.#recover()
    this.#share = Math.max(leastShare, this.#share / 2)
    this.#changedAt = this.#clock.now()
  }

  /** How fast bytes came, to know what half of it is. */
  observe(bytes: number, ms: number): void {
    // Held back it says nothing about the link.
    if (!(bytes > 0) || !(ms > 0) || this.bytesPerSecond < Infinity) return
    const rate = (bytes / ms) * 1_000
    this.#measured = this.#measured === undefined ? rate : 0.7 * this.#measured + 0.3 * rate
  }

  /** Time is short: until the returned function is called only errors hold bytes back, and whoever waits goes on. */
  rush(): () => void {
    this.#rushes += 1
    this.#freeAt = -Infinity
    const waiting = this.#hurry
    this.#hurry = new AbortController()
    waiting.abort(noLonger)
    let isOn = true
    return () => {
      if (isOn) this.#rushes -= 1
      isOn = false
    }
  }

  /** Resolves when these bytes may follow the ones before them. */
  async take(bytes: number, { signal }: AbortOptions = {}): Promise<void> {
    const rate = this.bytesPerSecond
    if (rate === Infinity) return
    const now = this.#clock.now()
    this.#freeAt = Math.max(this.#freeAt, now - burstMs) + (bytes / rate) * 1_000
    const waitMs = this.#freeAt - now
    if (waitMs <= 0) return
    const hurry = this.#hurry.signal
    await sleepUnless(this.#clock, waitMs, [signal, hurry])
    signal?.throwIfAborted()
  }

  get #seen(): number | undefined {
    return this.#measured ?? this.#link
  }

  #recover(): void {
    const calm = Math.floor((this.#clock.now() - this.#changedAt) / calmMs)
    if (calm < 1 || this.#share === 1) return
    this.#share = Math.min(1, this.#share * 2 ** calm)
    this.#changedAt += calm * calmMs
  }
}
