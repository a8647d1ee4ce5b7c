import type { Latency } from './probe.ts'

/** How far back the shortest round trip is looked for. */
const rememberMs = 30_000

/**
 * The latencies of one link of the last half minute. A busy machine lengthens every round trip of a whole window, and of
 * several in a row; the shortest of half a minute stays what the link itself costs.
 */
export class LatencyHistory {
  #windows: (Latency & { readonly atMs: number })[] = []

  add(latency: Latency, nowMs: number): void {
    const recent = this.#windows.filter(({ atMs }) => nowMs - atMs <= rememberMs)
    this.#windows = [...recent, { ...latency, atMs: nowMs }]
  }

  /** What was shortest; `undefined` before the first window. The last window counts, however old it is. */
  get minUs(): number | undefined {
    return this.#windows.length === 0 ? undefined : Math.min(...this.#windows.map(({ minUs }) => minUs))
  }

  get lastP50Us(): number | undefined {
    return this.#windows.at(-1)?.p50Us
  }
}
