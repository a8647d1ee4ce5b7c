import type { HealthSample } from '@egpu/core'
import { Drift } from './cusum.ts'
import { allQuiet } from './detector.ts'
import type { Detector, Sign } from './detector.ts'

/** Below this share of the most it ever drew a card does not load its supply. */
const loaded = 0.7

/**
 * Ripple of the power under load. A supply at its limit sags and recovers from one reading to the next, while work that
 * pauses leaves the loaded range altogether and does not count.
 */
export class PowerRipple implements Detector {
  readonly signal = 'power'
  readonly #drift = new Drift(0.015)
  #most = 0
  #before: number | undefined

  read({ powerWatts }: HealthSample): Sign | undefined {
    if (powerWatts === undefined) return undefined
    this.#most = Math.max(this.#most, powerWatts)
    const before = this.#before
    const isLoaded = powerWatts > loaded * this.#most
    this.#before = isLoaded ? powerWatts : undefined
    if (!isLoaded || before === undefined) return allQuiet
    const height = this.#drift.add(Math.abs(powerWatts - before) / this.#most)
    return { probability: height < 1 ? height * 0.2 : Math.min(0.9, 0.25 + 0.4 * height) }
  }
}
