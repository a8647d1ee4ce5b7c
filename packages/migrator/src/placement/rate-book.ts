import type { MeasuredRates } from './rates.ts'

/** How much a new measurement counts against those before it. */
const newest = 0.3

/** Smaller copies say more about latency than about bandwidth. */
const leastBytes = 2 ** 20

/** Remembers how fast targets turned out to be: a probe when they came, and every real copy since. */
export class RateBook {
  readonly #rates = new Map<string, MeasuredRates>()

  of(targetId: string): MeasuredRates | undefined {
    return this.#rates.get(targetId)
  }

  /** A probe replaces what was known. */
  measured(targetId: string, rates: MeasuredRates): void {
    this.#rates.set(targetId, { ...this.#rates.get(targetId), ...rates })
  }

  /** A real copy of so many bytes took so long. */
  copied(targetId: string, direction: 'toDevice' | 'fromDevice', bytes: number, ms: number): void {
    if (bytes < leastBytes || !(ms > 0)) return
    const gBps = bytes / (ms * 1e6)
    const rates = this.#rates.get(targetId) ?? {}
    const before = rates.linkGBps?.[direction]
    const after = before === undefined ? gBps : before + newest * (gBps - before)
    this.#rates.set(targetId, { ...rates, linkGBps: { ...rates.linkGBps, [direction]: after } })
  }

  /** It is gone. Plugged in again it may be on another cable. */
  forget(targetId: string): void {
    this.#rates.delete(targetId)
  }
}
