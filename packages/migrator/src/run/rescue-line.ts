import type { Clock } from '@egpu/core'
import { noLonger } from '../deadline.ts'

/** A save that is worth waiting for. */
export interface Turn {
  readonly id: string
  /** How long it should take. */
  readonly ms: number
  /** Called when it is its turn. */
  readonly start: () => void
}

/** A save that takes longer than it should by this factor and this much is no longer waited for. */
const patience = 2
const graceMs = 1_000

/**
 * The order in which saves use a link before it is lost: each has it for itself, because a checkpoint counts only when
 * it is whole. Over when all had their turn, or when the loss should have come.
 */
export class RescueLine {
  readonly #clock: Clock
  readonly #untilMs: number
  readonly #turns: Turn[]
  #endsAt = -Infinity
  #changed = new AbortController()

  constructor(clock: Clock, turns: readonly Turn[], withinMs: number) {
    this.#clock = clock
    this.#untilMs = clock.now() + withinMs
    this.#turns = [...turns]
    this.#begin()
  }

  /** Fires when the next one has its turn. */
  get changed(): AbortSignal {
    return this.#changed.signal
  }

  /** Until when the link belongs to others, as far as is known now; -Infinity when it does not. */
  closedUntil(id: string): number {
    const now = this.#clock.now()
    while (this.#turns.length > 0 && this.#endsAt <= now) this.#next()
    const [first] = this.#turns
    if (first === undefined || first.id === id || this.#untilMs <= now) return -Infinity
    return Math.min(this.#untilMs, this.#endsAt)
  }

  /** It is saved, or will not be. */
  done(id: string): void {
    const place = this.#turns.findIndex((turn) => turn.id === id)
    if (place === 0) this.#next()
    else if (place !== -1) this.#turns.splice(place, 1)
  }

  /** Nobody has to wait any more. */
  dissolve(): void {
    const left = this.#turns.splice(0)
    this.#tell()
    for (const { start } of left) start()
  }

  #next(): void {
    this.#turns.shift()
    this.#begin()
  }

  #begin(): void {
    const [first] = this.#turns
    if (first !== undefined) this.#endsAt = this.#clock.now() + patience * first.ms + graceMs
    this.#tell()
    first?.start()
  }

  #tell(): void {
    const before = this.#changed
    this.#changed = new AbortController()
    before.abort(noLonger)
  }
}
