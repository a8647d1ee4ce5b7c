import type { HealthSample } from '@egpu/core'
import { FailurePredictor } from './failure-predictor.ts'
import type { Forecast } from './failure-predictor.ts'
import { FaultHistory } from './fault-history.ts'

/** While an alarm lasts it is told again so often, and at once when it grows by this much. */
const repeatMs = 30_000
const newsworthy = 0.15

/** A driver's clock that is off by more than this from where it was is not slow, it was set. */
const clockJumpMs = 30_000

/** One driver's view of a device: it has a clock and totals of its own. */
interface Reader {
  predictor: FailurePredictor
  forecast: Forecast | undefined
  /** From the driver's clock to ours. */
  offsetMs: number
  /** For so long since the last reading it was us who did not listen. */
  deafMs: number
}

interface Watched {
  readonly history: FaultHistory
  readonly readers: Map<string, Reader>
  told: { readonly probability: number; readonly atMs: number } | undefined
}

/** The forecasts of all devices, from what their drivers read. Where several read one, the most worried counts. */
export class Forecasts {
  readonly #devices = new Map<string, Watched>()

  of(deviceId: string): Forecast | undefined {
    const forecasts = [...(this.#devices.get(deviceId)?.readers.values() ?? [])].flatMap(
      ({ forecast }) => forecast ?? [],
    )
    return forecasts.sort((a, b) => Number(b.alarm) - Number(a.alarm) || b.probability - a.probability)[0]
  }

  isAlarmed(deviceId: string | undefined): boolean {
    return deviceId !== undefined && this.of(deviceId)?.alarm === true
  }

  /** Devices of which there are readings. */
  get heard(): readonly string[] {
    return [...this.#devices].flatMap(([id, { readers }]) => (readers.size > 0 ? [id] : []))
  }

  /** Takes a reading; `undefined` when there is nothing new to tell. `nowMs` is our own clock. */
  read(deviceId: string, driver: string, sample: HealthSample, nowMs: number): Forecast | undefined {
    if (!Number.isFinite(sample.atMs)) return undefined
    const watched = this.#watched(deviceId)
    let reader = watched.readers.get(driver)
    if (reader === undefined) {
      const predictor = new FailurePredictor(watched.history)
      reader = { predictor, forecast: undefined, offsetMs: nowMs - sample.atMs, deafMs: 0 }
      watched.readers.set(driver, reader)
    }
    if (Math.abs(sample.atMs + reader.offsetMs - nowMs) > clockJumpMs) reader.offsetMs = nowMs - sample.atMs
    reader.deafMs = 0
    const { predictor, offsetMs } = reader
    return this.#follow(deviceId, nowMs, [[reader, () => predictor.read({ ...sample, atMs: sample.atMs + offsetMs })]])
  }

  /** What it means that nothing was read until now, although it was asked for. */
  silence(deviceId: string, nowMs: number): Forecast | undefined {
    const readers = [...(this.#devices.get(deviceId)?.readers.values() ?? [])]
    return this.#follow(
      deviceId,
      nowMs,
      readers.map((reader) => [reader, () => reader.predictor.silence(nowMs - reader.deafMs)]),
    )
  }

  /** It is not asked for the time being: its silence says nothing. */
  rest(deviceId: string): void {
    for (const { predictor } of this.#devices.get(deviceId)?.readers.values() ?? []) predictor.rest()
  }

  /** This process stood still: nobody else was late. */
  wasDeaf(ms: number): void {
    for (const { readers } of this.#devices.values()) for (const reader of readers.values()) reader.deafMs += ms
  }

  /** It is gone: what was read says nothing about what comes back. */
  gone(deviceId: string): void {
    const watched = this.#devices.get(deviceId)
    watched?.readers.clear()
    if (watched !== undefined) watched.told = undefined
  }

  /** It failed at these times. */
  failed(deviceId: string, ...atMs: readonly number[]): void {
    const { history } = this.#watched(deviceId)
    for (const faultAtMs of atMs) history.fault(faultAtMs)
  }

  #watched(deviceId: string): Watched {
    let watched = this.#devices.get(deviceId)
    if (watched === undefined) {
      watched = { history: new FaultHistory(), readers: new Map(), told: undefined }
      this.#devices.set(deviceId, watched)
    }
    return watched
  }

  #follow(
    deviceId: string,
    nowMs: number,
    looks: readonly (readonly [reader: Reader, look: () => Forecast])[],
  ): Forecast | undefined {
    const watched = this.#watched(deviceId)
    const wasAlarmed = this.isAlarmed(deviceId)
    for (const [reader, look] of looks) reader.forecast = look()
    const forecast = this.of(deviceId)
    if (forecast === undefined) return undefined
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
}
