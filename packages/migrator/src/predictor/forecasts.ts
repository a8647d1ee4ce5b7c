import type { HealthSample } from '@egpu/core'
import { FailurePredictor } from './failure-predictor.ts'
import type { Forecast } from './failure-predictor.ts'

/** While an alarm lasts it is told again so often, and at once when it grows by this much. */
const repeatMs = 30_000
const newsworthy = 0.15

interface Watched {
  predictor: FailurePredictor
  forecast: Forecast | undefined
  told: { readonly probability: number; readonly atMs: number } | undefined
}

/** The forecasts of all devices, from what their drivers read. */
export class Forecasts {
  readonly #devices = new Map<string, Watched>()

  of(deviceId: string): Forecast | undefined {
    return this.#devices.get(deviceId)?.forecast
  }

  isAlarmed(deviceId: string | undefined): boolean {
    return deviceId !== undefined && this.#devices.get(deviceId)?.forecast?.alarm === true
  }

  /** Takes a reading; `undefined` when there is nothing new to tell. `nowMs` is our own clock. */
  read(deviceId: string, sample: HealthSample, nowMs: number): Forecast | undefined {
    let watched = this.#devices.get(deviceId)
    if (watched === undefined) {
      watched = { predictor: new FailurePredictor(), forecast: undefined, told: undefined }
      this.#devices.set(deviceId, watched)
    }
    const wasAlarmed = watched.forecast?.alarm === true
    const forecast = watched.predictor.read(sample)
    watched.forecast = forecast
    const { told } = watched
    if (!forecast.alarm) {
      watched.told = undefined
      return wasAlarmed ? forecast : undefined
    }
    const isNews =
      told === undefined || forecast.probability - told.probability > newsworthy || nowMs - told.atMs >= repeatMs
    if (!isNews) return undefined
    watched.told = { probability: forecast.probability, atMs: nowMs }
    return forecast
  }

  /** What was read before the failure says nothing about what comes back. */
  failed(deviceId: string, atMs: number): void {
    const watched = this.#devices.get(deviceId)
    if (watched === undefined || watched.forecast === undefined) return
    this.#devices.set(deviceId, {
      predictor: FailurePredictor.after(watched.predictor, atMs),
      forecast: undefined,
      told: undefined,
    })
  }
}
