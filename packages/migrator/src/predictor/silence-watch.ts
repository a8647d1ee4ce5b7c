import type { Clock } from '@egpu/core'
import type { Forecast } from './failure-predictor.ts'
import type { Forecasts } from './forecasts.ts'

/** Silence shows by a beat and more, and drivers are asked every few seconds. */
const lookEveryMs = 1_000

/** Later than this a look was not late by chance: the process or the machine stood still. */
const lateMs = 250

export interface SilenceWatchOptions {
  readonly clock: Clock
  readonly forecasts: Forecasts
  /** Whether drivers are asked at all at present. */
  readonly isListening: () => boolean
  /** Whether they are asked for this device: not while it sleeps, leaves or is dead. */
  readonly isAsked: (deviceId: string) => boolean
  readonly onNews: (deviceId: string, forecast: Forecast) => void
}

/** Notices devices whose readings stop. Looks only while there is something to hear; `stop` ends it. */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  readonly #over = new AbortController()
  #isLooking = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /** A reading came: the next may not. */
  heard(): void {
    if (this.#isLooking || this.#over.signal.aborted || !this.#options.isListening()) return
    this.#isLooking = true
    void this.#look()
  }

  stop(): void {
    this.#over.abort()
  }

  async #look(): Promise<void> {
    const { clock, forecasts, isListening, isAsked, onNews } = this.#options
    const { signal } = this.#over
    while (!signal.aborted && isListening() && forecasts.heard.length > 0) {
      const dueAt = clock.now() + lookEveryMs
      await clock.sleep(lookEveryMs, { signal }).catch(() => undefined)
      const overdueMs = clock.now() - dueAt
      if (overdueMs > lateMs) forecasts.wasDeaf(overdueMs)
      if (signal.aborted || !isListening()) break
      for (const deviceId of forecasts.heard) {
        const forecast = isAsked(deviceId) ? forecasts.silence(deviceId, clock.now()) : forecasts.rest(deviceId)
        if (forecast !== undefined) onNews(deviceId, forecast)
      }
    }
    for (const deviceId of forecasts.heard) forecasts.rest(deviceId)
    this.#isLooking = false
  }
}
