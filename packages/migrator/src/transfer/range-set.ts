import type { StatePart, StateRange } from '@egpu/core'

/** Bytes of a state that are still to be sent, each counted once. */
export class RangeSet {
  readonly #parts: readonly StatePart[]
  /** By part, sorted and apart from each other. */
  #ranges: StateRange[] = []

  constructor(parts: readonly StatePart[]) {
    this.#parts = parts
  }

  get bytes(): number {
    return this.#ranges.reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  /** `undefined` for everything. What lies outside of the parts is cut off. */
  add(changed: readonly StateRange[] | undefined): void {
    const whole = this.#parts.map(({ name, byteLength }) => ({ part: name, byteOffset: 0, byteLength }))
    this.#ranges = changed === undefined ? whole : this.#merged([...this.#ranges, ...changed])
  }

  take(): readonly StateRange[] {
    const taken = this.#ranges
    this.#ranges = []
    return taken
  }

  #merged(ranges: readonly StateRange[]): StateRange[] {
    return this.#parts.flatMap(({ name, byteLength: length }) => {
      const merged: { from: number; to: number }[] = []
      const spans = ranges
        .filter(({ part }) => part === name)
        .map(({ byteOffset, byteLength }) => ({
          from: Math.max(0, byteOffset),
          to: Math.min(length, byteOffset + byteLength),
        }))
        .filter(({ from, to }) => to > from)
        .sort((a, b) => a.from - b.from)
      for (const span of spans) {
        const last = merged.at(-1)
        if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to)
        else merged.push(span)
      }
      return merged.map(({ from, to }) => ({ part: name, byteOffset: from, byteLength: to - from }))
    })
  }
}
