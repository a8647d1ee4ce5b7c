/** Which bytes of a buffer may have changed: sorted ranges that neither touch nor overlap. */
export class Ranges {
  /** `start, end, start, end, …` */
  #edges: number[] = []

  /** More than this many ranges are joined into one: a copy of what lies between costs less than the bookkeeping. */
  static readonly most = 64

  get isEmpty(): boolean {
    return this.#edges.length === 0
  }

  get byteLength(): number {
    let sum = 0
    for (const [start, end] of this) sum += end - start
    return sum
  }

  add(start: number, end: number): void {
    if (end <= start) return
    const edges = this.#edges
    // The common case: the same range as last time, or one inside it.
    if (edges.length === 2 && start >= (edges[0] as number) && end <= (edges[1] as number)) return
    const kept: number[] = []
    let [from, to] = [start, end]
    let isPlaced = false
    for (let at = 0; at < edges.length; at += 2) {
      const [low, high] = [edges[at] as number, edges[at + 1] as number]
      if (high < from) kept.push(low, high)
      else if (low > to) {
        if (!isPlaced) kept.push(from, to)
        isPlaced = true
        kept.push(low, high)
      } else {
        from = Math.min(from, low)
        to = Math.max(to, high)
      }
    }
    if (!isPlaced) kept.push(from, to)
    this.#edges = kept.length > 2 * Ranges.most ? [kept[0] as number, kept.at(-1) as number] : kept
  }

  clear(): void {
    this.#edges = []
  }

  *[Symbol.iterator](): Generator<readonly [start: number, end: number]> {
    for (let at = 0; at < this.#edges.length; at += 2) {
      yield [this.#edges[at] as number, this.#edges[at + 1] as number]
    }
  }
}
