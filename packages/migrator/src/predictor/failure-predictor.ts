import type { HealthSample } from '@egpu/core'
import type { Detector, Sign } from './detector.ts'
import { CorrectableErrors, UncorrectedErrors } from './error-detectors.ts'
import { FaultHistory } from './fault-history.ts'
import { LateBeats, ProbeLatency } from './heartbeat-detector.ts'
import { LinkFlaps } from './link-detector.ts'
import { PowerRipple } from './power-detector.ts'
import { ThermalSlope } from './thermal-detector.ts'

/** How likely a device is to fail soon. */
export interface Forecast {
  /** 0 to 1. */
  readonly probability: number
  /** Share of the signals that could be read. Unknown ones lower this, not the probability. */
  readonly confidence: number
  /** With hysteresis and a dwell time, so that it does not flicker. */
  readonly alarm: boolean
  /** When, at the present rate; `undefined` where no signal can tell. */
  readonly leadMs?: number | undefined
  /** What speaks for it, strongest first. */
  readonly signs: readonly (Sign & { readonly signal: string })[]
}

/** As cluster schedulers enter and leave a suspicion: at 0.6 and 0.3, for at least half a minute. */
const enter = 0.6
const leave = 0.3
const dwellMs = 30_000

/** How much each signal is believed: a loose cable shows itself, a supply that ripples may just be loud. */
const weights: Readonly<Record<string, number>> = {
  'correctable-errors': 0.85,
  'uncorrected-errors': 0.9,
  temperature: 0.95,
  link: 0.8,
  power: 0.8,
  heartbeat: 0.8,
  'probe-latency': 0.8,
}

/**
 * Foretells the failure of one device from what its drivers read. Each signal is followed by itself, and they combine
 * as independent causes (noisy-or). A loss that nothing announces is not foretold: most pulled cables are of that kind.
 */
export class FailurePredictor {
  readonly #heartbeat = new LateBeats()
  readonly #detectors: readonly Detector[] = [
    new CorrectableErrors(),
    new UncorrectedErrors(),
    new ThermalSlope(),
    new LinkFlaps(),
    new PowerRipple(),
    new ProbeLatency(),
    this.#heartbeat,
  ]
  readonly #history: FaultHistory
  readonly #signs = new Map<string, Sign>()
  #alarm = false
  #changedAt = -Infinity
  #lastMs = -Infinity

  /** `history`: what went wrong with the device before. */
  constructor(history: FaultHistory = new FaultHistory()) {
    this.#history = history
  }

  /** Takes a reading. `atMs` may jump: a reading older than the one before is left out. */
  read(sample: HealthSample): Forecast {
    if (!(sample.atMs > this.#lastMs)) return this.#forecast(this.#lastMs)
    this.#lastMs = sample.atMs
    for (const detector of this.#detectors) {
      const sign = detector.read(sample)
      if (sign === undefined) this.#signs.delete(detector.signal)
      else this.#signs.set(detector.signal, sign)
    }
    return this.#forecast(sample.atMs)
  }

  /** What it means that no reading has come until now. */
  silence(nowMs: number): Forecast {
    this.#signs.set(this.#heartbeat.signal, this.#heartbeat.silent(nowMs))
    return this.#forecast(nowMs)
  }

  /** Nobody listens for the time being: the next reading is late for no reason of the device's. */
  rest(): void {
    this.#heartbeat.rest()
    this.#signs.delete(this.#heartbeat.signal)
  }

  #forecast(nowMs: number): Forecast {
    const signs = [...this.#signs].map(([signal, sign]) => ({ signal, ...sign }))
    let spared = 1
    for (const { signal, probability } of signs) spared *= 1 - (weights[signal] ?? 0) * probability
    // Past faults raise the odds of whatever else there is, and are no sign of a failure now.
    const evidence = 1 - spared
    const probability = evidence + evidence * (1 - evidence) * this.#history.prior(nowMs)
    this.#settle(probability, nowMs)
    const speaking = signs.filter((sign) => sign.probability > 0).sort((a, b) => b.probability - a.probability)
    const leads = speaking.flatMap(({ leadMs }) => leadMs ?? [])
    return {
      probability,
      confidence: signs.length / this.#detectors.length,
      alarm: this.#alarm,
      leadMs: leads.length === 0 ? undefined : Math.min(...leads),
      signs: speaking,
    }
  }

  #settle(probability: number, nowMs: number): void {
    const wanted = probability >= (this.#alarm ? leave : enter)
    if (wanted === this.#alarm || (this.#alarm && nowMs - this.#changedAt < dwellMs)) return
    this.#alarm = wanted
    this.#changedAt = nowMs
  }
}
