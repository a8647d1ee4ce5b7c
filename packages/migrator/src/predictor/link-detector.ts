import type { HealthSample } from '@egpu/core'
import { allQuiet } from './detector.ts'
import type { Detector, Sign } from './detector.ts'

/** Rates differ by steps of two; less is measuring. */
const step = 0.8

/** How long a change of the link's rate is remembered. */
const memoryMs = 5 * 60_000

/**
 * The link's rate against its own past. A link that always shows x1 at 2.5 GT/s (what tunnelled hops report) is as it
 * ever was; one that trains back and forth is about to go. Changes with the load are power management.
 */
export class LinkFlaps implements Detector {
  readonly signal = 'link'
  #before: number | undefined
  #best = 0
  #changes: number[] = []

  read({ atMs, linkRatio, powerWatts }: HealthSample): Sign | undefined {
    if (linkRatio === undefined) return undefined
    const before = this.#before
    const busy = this.#isBusy(powerWatts)
    this.#before = linkRatio
    this.#best = Math.max(this.#best, linkRatio)
    // An idle link may go to sleep, and wakes when there is work.
    if (before !== undefined && busy && differ(before, linkRatio)) this.#changes.push(atMs)
    this.#changes = this.#changes.filter((changedAt) => atMs - changedAt < memoryMs)
    if (this.#changes.length >= 3) return { probability: 0.9 }
    if (this.#changes.length === 2) return { probability: 0.6 }
    if (busy && linkRatio < step * this.#best) return { probability: 0.3 }
    return this.#changes.length === 1 ? { probability: 0.2 } : allQuiet
  }

  #mostWatts = 0
  #wasBusy = false

  /** Busy now and at the reading before: a change that comes with the load says nothing about the cable. */
  #isBusy(watts: number | undefined): boolean {
    if (watts === undefined) return true
    this.#mostWatts = Math.max(this.#mostWatts, watts)
    const now = watts > 0.4 * this.#mostWatts
    const both = now && this.#wasBusy
    this.#wasBusy = now
    return both
  }
}

function differ(a: number, b: number): boolean {
  return Math.min(a, b) < step * Math.max(a, b)
}
