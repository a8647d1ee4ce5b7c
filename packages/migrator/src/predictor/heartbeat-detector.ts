import type { HealthSample } from '@egpu/core'
import { allQuiet } from './detector.ts'
import type { Detector, Sign } from './detector.ts'
import { Drift } from './cusum.ts'
import { Ewma } from './ewma.ts'

/** As Cassandra and Akka use it: at 1 a beat is late once in ten times by chance, at 8 once in 10^8. */
const warnPhi = 3
const suspectPhi = 8

const leastBeats = 8

/**
 * φ of Hayashibara et al. (SRDS 2004): −log₁₀ of the chance that a beat which is this late still comes, if the times
 * between beats are normal with the mean and deviation seen so far.
 */
export function phi(elapsedMs: number, meanMs: number, deviationMs: number): number {
  const z = (elapsedMs - meanMs) / deviationMs
  // Logistic approximation of the normal tail, good to 1 % of φ up to φ = 16.
  const exponent = Math.exp(-z * (1.5976 + 0.070566 * z * z))
  if (z > 0) return -Math.log10(exponent / (1 + exponent))
  return -Math.log10(1 - 1 / (1 + exponent))
}

/** Readings that come late: a device or a driver that begins to hang answers ever later. */
export class LateBeats implements Detector {
  readonly signal = 'heartbeat'
  readonly #gaps = new Ewma(0.02)
  #lastMs: number | undefined

  read({ atMs }: HealthSample): Sign | undefined {
    const last = this.#lastMs
    this.#lastMs = atMs
    if (last === undefined || atMs <= last) return undefined
    // A reading after a gap of ten beats is that of a machine that slept: what hangs does not answer again.
    if (this.#gaps.count >= leastBeats && atMs - last > 10 * this.#gaps.mean) return allQuiet
    // Timers are not exact, so a tenth of the interval counts as ordinary.
    const sign = this.#late(atMs - last, this.#gaps.mean / 10)
    this.#gaps.add(atMs - last)
    return sign
  }

  /** What it means that no reading has come until now. */
  silent(nowMs: number): Sign {
    // One reading may be late because its driver was busy; two that are missing are another matter.
    return this.#lastMs === undefined ? allQuiet : this.#late(nowMs - this.#lastMs, this.#gaps.mean / 4)
  }

  /** Nobody listens. */
  rest(): void {
    this.#lastMs = undefined
  }

  #late(elapsedMs: number, leastDeviationMs: number): Sign {
    if (this.#gaps.count < leastBeats) return allQuiet
    const { mean, deviation } = this.#gaps
    const value = phi(elapsedMs, mean, Math.max(deviation, leastDeviationMs))
    if (value < warnPhi) return allQuiet
    return { probability: Math.min(0.95, 0.3 + (0.65 * (value - warnPhi)) / (suspectPhi - warnPhi)) }
  }
}

/**
 * How long a trivial job takes to come back, in powers of e over its baseline. Other work doubles or triples it, which is
 * 2.2 of these deviations; only what lasts and grows beyond that counts.
 */
export class ProbeLatency implements Detector {
  readonly signal = 'probe-latency'
  readonly #drift = new Drift(0.5, 2.2)

  read({ probeLatencyMs }: HealthSample): Sign | undefined {
    if (probeLatencyMs === undefined) return undefined
    const height = this.#drift.add(Math.log(Math.max(probeLatencyMs, 1e-3)))
    return { probability: height < 1 ? height * 0.2 : Math.min(0.9, 0.3 + 0.4 * height) }
  }
}
