import type { HealthSample } from '@egpu/core'
import { Cusum } from './cusum.ts'
import { allQuiet } from './detector.ts'
import type { Detector, Sign } from './detector.ts'
import { Ewma } from './ewma.ts'

/** What a running total gained since the reading before. Smaller totals come after a reset and count from 0. */
class Gain {
  readonly #total: (sample: HealthSample) => number | undefined
  #before: { readonly total: number; readonly atMs: number } | undefined

  constructor(total: (sample: HealthSample) => number | undefined) {
    this.#total = total
  }

  next(sample: HealthSample): { readonly count: number; readonly seconds: number } | undefined {
    const total = this.#total(sample)
    if (total === undefined) return undefined
    const before = this.#before
    this.#before = { total, atMs: sample.atMs }
    if (before === undefined || sample.atMs <= before.atMs) return { count: 0, seconds: 0 }
    const count = total >= before.total ? total - before.total : total
    return { count, seconds: (sample.atMs - before.atMs) / 1_000 }
  }
}

/** Counts are of Poisson's kind: their deviation is the root of their mean, and a cable without errors is not perfect. */
const leastVariance = 0.5

/**
 * Correctable PCI Express errors, as a rate over its own baseline. A cable that is about to go repeats itself; a burst
 * when a device wakes is one reading.
 */
export class CorrectableErrors implements Detector {
  readonly signal = 'correctable-errors'
  readonly #gain = new Gain(({ correctableErrors }) => correctableErrors)
  readonly #perSecond = new Ewma(0.01)
  readonly #cusum = new Cusum()

  read(sample: HealthSample): Sign | undefined {
    const gain = this.#gain.next(sample)
    if (gain === undefined) return undefined
    const { count, seconds } = gain
    if (seconds === 0) return allQuiet
    const expected = this.#perSecond.mean * seconds
    const height = this.#cusum.add((count - expected) / Math.sqrt(expected + leastVariance))
    // One burst is no habit.
    if (this.#cusum.isCalm) this.#perSecond.add(Math.min(count, expected + 3) / seconds)
    return { probability: height < 1 ? height * 0.3 : Math.min(1, 0.4 + 0.4 * height) }
  }
}

/** How long an uncorrected error is remembered: the losses that had one followed within minutes (−8.5 min, −72 s). */
const memoryMs = 10 * 60_000

/** Errors that were not corrected. Mostly they come together with the loss; the rest of the time they precede it. */
export class UncorrectedErrors implements Detector {
  readonly signal = 'uncorrected-errors'
  readonly #nonfatal = new Gain(({ nonfatalErrors }) => nonfatalErrors)
  readonly #fatal = new Gain(({ fatalErrors }) => fatalErrors)
  #seen: { readonly atMs: number; readonly probability: number }[] = []

  read(sample: HealthSample): Sign | undefined {
    const nonfatal = this.#nonfatal.next(sample)
    const fatal = this.#fatal.next(sample)
    if (nonfatal === undefined && fatal === undefined) return undefined
    const { atMs } = sample
    if ((fatal?.count ?? 0) > 0) this.#seen.push({ atMs, probability: 0.95 })
    if ((nonfatal?.count ?? 0) > 0) this.#seen.push({ atMs, probability: 0.5 })
    this.#seen = this.#seen.filter((error) => atMs - error.atMs < memoryMs).slice(-20)
    const spared = this.#seen.reduce((product, { probability }) => product * (1 - probability), 1)
    return { probability: 1 - spared }
  }
}
