/** Random numbers that are the same for the same seed (mulberry32: github.com/cprosche/mulberry32). */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, and without, `end`. */
  below(end: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % end
  }

  isOdd(): boolean {
    return this.below(2) === 1
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }

  bytes(length: number): Uint8Array<ArrayBuffer> {
    return Uint8Array.from({ length }, () => this.below(256))
  }
}
