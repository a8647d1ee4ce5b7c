import type { HealthSample } from '@egpu/core'
import { allQuiet } from './detector.ts'
import type { Detector, Sign } from './detector.ts'

const windowMs = 60_000
const leastReadings = 4

/** Vendors cut the power some 10 K beyond where throttling starts. */
const cutoffAboveLimit = 10

/**
 * Throttling holds the temperature at its limit, for hours if need be: so far beyond it, cooling itself has failed. Below
 * the limit the slope tells nothing: a new load looks like a dead fan for its first minutes.
 */
const heldByThrottling = 4

/** Slower than this is the weather. */
const leastSlopePerSecond = 0.02

interface Reading {
  readonly atMs: number
  readonly celsius: number
}

/** Temperature that goes on rising where throttling should hold it; by its slope, how long until the card cuts out. */
export class ThermalSlope implements Detector {
  readonly signal = 'temperature'
  #readings: Reading[] = []

  read({ atMs, temperatureCelsius: celsius, temperatureLimitCelsius: limit }: HealthSample): Sign | undefined {
    if (celsius === undefined || limit === undefined) return undefined
    this.#readings = [...this.#readings.filter((reading) => atMs - reading.atMs <= windowMs), { atMs, celsius }]
    if (celsius <= limit + heldByThrottling) return allQuiet
    if (celsius >= limit + cutoffAboveLimit) return { probability: 0.9, leadMs: 0 }
    const rise = this.#readings.length < leastReadings ? 0 : slope(this.#readings)
    if (rise < leastSlopePerSecond) return { probability: 0.5 }
    return { probability: 0.9, leadMs: ((limit + cutoffAboveLimit - celsius) / rise) * 1_000 }
  }
}

/** Kelvin per second, by least squares. */
function slope(readings: readonly Reading[]): number {
  const start = readings[0]?.atMs ?? 0
  const meanT = readings.reduce((sum, { atMs }) => sum + (atMs - start), 0) / readings.length
  const meanC = readings.reduce((sum, { celsius }) => sum + celsius, 0) / readings.length
  let covariance = 0
  let variance = 0
  for (const { atMs, celsius } of readings) {
    const t = atMs - start - meanT
    covariance += t * (celsius - meanC)
    variance += t * t
  }
  return variance === 0 ? 0 : (covariance / variance) * 1_000
}
