/** One reading of a device's condition. Every field is optional: what could not be read is absent, never 0. */
export interface HealthSample {
  /** When it was read, on the driver's clock. */
  readonly atMs: number
  readonly temperatureCelsius?: number | undefined
  /** Where the vendor says throttling starts. */
  readonly temperatureLimitCelsius?: number | undefined
  readonly powerWatts?: number | undefined
  readonly memoryUsedBytes?: number | undefined
  readonly memoryTotalBytes?: number | undefined
  /** Running totals since power-up, summed over the whole path to the root port. */
  readonly correctableErrors?: number | undefined
  readonly nonfatalErrors?: number | undefined
  readonly fatalErrors?: number | undefined
  /** What the link carries now over what it carried at its best, 0 to 1. */
  readonly linkRatio?: number | undefined
  /** How long a trivial job took to come back. */
  readonly probeLatencyMs?: number | undefined
}

/** Parts of a health score, each 0 to 100; absent when nothing is known about it. */
export interface HealthComponents {
  readonly thermal?: number | undefined
  readonly memory?: number | undefined
  readonly link?: number | undefined
  readonly errors?: number | undefined
  readonly faultHistory?: number | undefined
}

/** How well a device is, and how much of that is known. */
export interface HealthScore {
  /** 0 (dead) to 100; `undefined` while nothing at all is known. */
  readonly score: number | undefined
  /** 0 to 1: the share of the components that could be read. Unknown lowers this, not the score. */
  readonly confidence: number
  readonly components: HealthComponents
  /** With hysteresis, so it does not flicker around a threshold. */
  readonly level: 'good' | 'degraded' | 'critical' | 'unknown'
}
