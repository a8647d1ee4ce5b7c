import type { AbortOptions, Clock } from '@egpu/core'
import { noLonger, sleepUnless } from '../deadline.ts'
import { Pace } from '../checkpoint/pace.ts'
import { RescueLine } from './rescue-line.ts'
import type { Turn } from './rescue-line.ts'

/** The link of one device as saving uses it: how fast, and in which order where there is no time for all. */
export class SavingLink {
  readonly pace: Pace
  readonly #clock: Clock
  #line: RescueLine | undefined
  #lossAt = -Infinity

  constructor(clock: Clock) {
    this.#clock = clock
    this.pace = new Pace({ clock })
  }

  /** Until the loss that is expected no save holds back for the sake of the work. */
  get isPressed(): boolean {
    return this.#clock.now() < this.#lossAt
  }

  /** The device is expected to be lost; there is the time for all. */
  press(withinMs: number): void {
    this.#dissolve()
    this.#lossAt = this.#clock.now() + withinMs
  }

  /** There is not: these save one after another, each alone, and everybody else waits until then. */
  lineUp(turns: readonly Turn[], withinMs: number): void {
    this.press(withinMs)
    this.#line = new RescueLine(this.#clock, turns, withinMs)
  }

  /** It is not expected any more. */
  relax(): void {
    this.#dissolve()
    this.#lossAt = -Infinity
  }

  /** See `RescueLine`. */
  closedUntil(workloadId: string): number {
    return this.#line?.closedUntil(workloadId) ?? -Infinity
  }

  done(workloadId: string): void {
    this.#line?.done(workloadId)
  }

  /** The way of one save over the link. */
  passage(workloadId: string): Passage {
    return new Passage(this, this.#clock, workloadId, () => this.#line?.changed)
  }

  #dissolve(): void {
    const line = this.#line
    this.#line = undefined
    line?.dissolve()
  }
}

/** Lets the bytes of one save through when it is their turn, at the pace of the link. */
export class Passage {
  readonly #link: SavingLink
  readonly #clock: Clock
  readonly #workloadId: string
  readonly #turnChanged: () => AbortSignal | undefined
  readonly #hurry = new AbortController()
  #endRush: (() => void) | undefined

  constructor(link: SavingLink, clock: Clock, workloadId: string, turnChanged: () => AbortSignal | undefined) {
    this.#link = link
    this.#clock = clock
    this.#workloadId = workloadId
    this.#turnChanged = turnChanged
  }

  /** The work stands still until it is saved, or soon will: it waits for nobody. */
  hurry(): void {
    this.#rush()
    this.#hurry.abort(noLonger)
  }

  async take(bytes: number, { signal }: AbortOptions = {}): Promise<void> {
    while (!this.#hurry.signal.aborted) {
      const waitMs = this.#link.closedUntil(this.#workloadId) - this.#clock.now()
      if (waitMs <= 0) break
      await sleepUnless(this.#clock, waitMs, [signal, this.#hurry.signal, this.#turnChanged()])
      signal?.throwIfAborted()
    }
    if (this.#link.isPressed) this.#rush()
    await this.#link.pace.take(bytes, { signal })
  }

  observe(bytes: number, ms: number): void {
    this.#link.pace.observe(bytes, ms)
  }

  end(): void {
    this.#endRush?.()
    this.#link.done(this.#workloadId)
  }

  #rush(): void {
    this.#endRush ??= this.#link.pace.rush()
  }
}
