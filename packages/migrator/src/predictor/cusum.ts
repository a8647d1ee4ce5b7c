import { Ewma } from './ewma.ts'

/** Page's one-sided sum: drift of half a deviation is ignored, five deviations are an alarm (Biometrika 41, 1954). */
const usuallyIgnored = 0.5
const alarm = 5

/** One value adds at most so many deviations, so no single outlier is an alarm: it takes two in a row. */
const mostAtOnce = 2.5

/**
 * A baseline remembers some 200 values, a quarter of an hour of readings: longer than anything that comes before a failure
 * takes, or the trouble would be learned as the ordinary while it grows.
 */
const baselineShare = 0.005

/** So many values make a baseline. */
const baselineCount = 5

/** Notices that deviations from what is ordinary add up. */
export class Cusum {
  readonly #ignored: number
  #sum = 0

  /** `ignored`: in deviations. */
  constructor(ignored: number = usuallyIgnored) {
    this.#ignored = ignored
  }

  /** What is out of the ordinary just now is not to be learned as the ordinary. */
  get isCalm(): boolean {
    return this.#sum < alarm / 2
  }

  /** How far towards an alarm it is: 0 as ever, 1 an alarm, up to 2. */
  add(deviations: number): number {
    this.#sum = Math.min(2 * alarm, Math.max(0, this.#sum + Math.min(mostAtOnce, deviations - this.#ignored)))
    return this.#sum / alarm
  }
}

/** Notices that a series has moved up from where it used to be. */
export class Drift {
  readonly #baseline: Ewma = new Ewma(baselineShare)
  readonly #cusum: Cusum
  readonly #leastDeviation: number

  /** `leastDeviation`: a series that never moved is not infinitely sensitive. */
  constructor(leastDeviation: number, ignored?: number) {
    this.#leastDeviation = leastDeviation
    this.#cusum = new Cusum(ignored)
  }

  add(value: number): number {
    const baseline = this.#baseline
    const isReady = baseline.count >= baselineCount
    const { mean, deviation } = baseline
    const height = isReady ? this.#cusum.add((value - mean) / Math.max(deviation, this.#leastDeviation)) : 0
    if (this.#cusum.isCalm) baseline.add(value)
    return height
  }
}
