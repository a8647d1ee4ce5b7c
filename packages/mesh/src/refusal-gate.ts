import type { Refusal } from './control/control-plane.ts'

const quietMs = 5_000
const mostAtOnce = 64

/** Tells which refusals are worth an event: a stranger that dials again and again is told of now and then. */
export class RefusalGate {
  /** When each was told last, the oldest first. */
  readonly #told = new Map<string, number>()

  isNews({ address, peerId, error }: Refusal, nowMs: number): boolean {
    for (const [key, atMs] of this.#told) {
      if (nowMs - atMs < quietMs) break
      this.#told.delete(key)
    }
    const key = JSON.stringify([address, peerId, error.code])
    if (this.#told.has(key) || this.#told.size >= mostAtOnce) return false
    this.#told.set(key, nowMs)
    return true
  }
}
