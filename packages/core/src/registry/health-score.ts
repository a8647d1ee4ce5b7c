import type { HealthComponents, HealthSample, HealthScore } from '../types/health.ts'

/**
 * How far the temperature is from where the vendor says throttling starts, in kelvin. A desktop card at full load runs
 * 10 to 20 K below it, so that much headroom is full health; at the limit it already runs slower, which is where
 * `degraded` ends and `critical` begins; vendors cut the power some 10 K beyond.
 */
const thermal = { comfortable: 15, atLimit: 40, cutoff: -10 }

/** Full memory fails allocations but hurts nobody yet; below nine tenths there is no pressure to speak of. */
const memory = { relaxed: 0.9, full: 50 }

/**
 * How many points one fresh error costs, as powers: each halves the component `halvings` times. Fatal and non-fatal
 * errors of PCI Express mostly come together with the loss (AER counters, kernel's `aer_dev_fatal` and
 * `aer_dev_nonfatal`); correctable ones were repaired by a replay, and twenty fresh ones are a bad cable.
 */
const halvings = { fatal: 2, nonfatal: 0.5, correctable: 0.05 }

/** Correctable errors come in bursts while a cable moves; an hour later they should not count any more. */
const errorHalfLifeMs = 15 * 60_000

/**
 * Chance of another fault within 7 days after one, over 584 faults of 400 nodes in 349 days (InfiniteHBD-Trace,
 * SIGCOMM 2025, stepfun-ai/InfiniteHBD-Trace); half of it falls into the first day, so the memory of a fault fades
 * over days.
 */
const anotherFault = 0.262
const faultMemoryMs = 3 * 24 * 3_600_000

/** The five components count alike towards the confidence. */
const componentNames = ['thermal', 'memory', 'link', 'errors', 'faultHistory'] as const

/**
 * Thresholds of the level on the score. `critical` takes the pair that cluster schedulers enter and leave a suspicion
 * at: 0.6 and 0.3 of failure probability, here 100 less the score. `degraded` begins where that suspicion ends.
 */
const levels = { critical: { enter: 40, leave: 70 }, degraded: { enter: 70, leave: 80 } }

/** What errors amount to, decayed: pass it on to the next `errorPressure`. */
export interface ErrorPressure {
  readonly halvings: number
  readonly atMs: number
}

/** What is left of an error pressure or a fault after some time. */
export const decayedErrors = (pressure: ErrorPressure, nowMs: number): number =>
  pressure.halvings * 2 ** (-Math.max(0, nowMs - pressure.atMs) / errorHalfLifeMs)

/** Adds what the running totals gained between two samples. A total that shrank was reset, by a re-plug for one. */
export function addErrors(
  pressure: ErrorPressure | undefined,
  before: HealthSample | undefined,
  after: HealthSample,
  nowMs: number,
): ErrorPressure | undefined {
  const gain = (read: (sample: HealthSample) => number | undefined): number | undefined => {
    const total = read(after)
    if (total === undefined) return undefined
    const previous = before === undefined ? undefined : read(before)
    if (previous === undefined) return 0
    return total >= previous ? total - previous : total
  }
  const fatal = gain((sample) => sample.fatalErrors)
  const nonfatal = gain((sample) => sample.nonfatalErrors)
  const correctable = gain((sample) => sample.correctableErrors)
  if (fatal === undefined && nonfatal === undefined && correctable === undefined) return pressure
  const fresh =
    (fatal ?? 0) * halvings.fatal + (nonfatal ?? 0) * halvings.nonfatal + (correctable ?? 0) * halvings.correctable
  return { halvings: (pressure === undefined ? 0 : decayedErrors(pressure, nowMs)) + fresh, atMs: nowMs }
}

export interface HealthInputs {
  /** The newest known value of each field. */
  readonly sample: HealthSample | undefined
  readonly errors: ErrorPressure | undefined
  /** When the device was lost or wedged; `undefined` while nobody has watched it. */
  readonly faultsAtMs: readonly number[] | undefined
  readonly nowMs: number
}

/** The components, each from its own signals alone; what is not known stays out. */
export function healthComponents({ sample, errors, faultsAtMs, nowMs }: HealthInputs): HealthComponents {
  return {
    thermal: thermalOf(sample?.temperatureCelsius, sample?.temperatureLimitCelsius),
    memory: memoryOf(sample?.memoryUsedBytes, sample?.memoryTotalBytes),
    link: sample?.linkRatio === undefined ? undefined : clamp(sample.linkRatio * 100),
    errors: errors === undefined ? undefined : 100 * 2 ** -decayedErrors(errors, nowMs),
    faultHistory: faultsAtMs === undefined ? undefined : faultHistoryOf(faultsAtMs, nowMs),
  }
}

function thermalOf(temperature: number | undefined, limit: number | undefined): number | undefined {
  if (temperature === undefined || limit === undefined) return undefined
  const headroom = limit - temperature
  if (headroom >= 0) return line(headroom, 0, thermal.atLimit, thermal.comfortable, 100)
  return line(headroom, thermal.cutoff, 0, 0, thermal.atLimit)
}

function memoryOf(used: number | undefined, total: number | undefined): number | undefined {
  if (used === undefined || total === undefined || total <= 0) return undefined
  return line(used / total, memory.relaxed, 100, 1, memory.full)
}

function faultHistoryOf(faultsAtMs: readonly number[], nowMs: number): number {
  let weight = 0
  for (const atMs of faultsAtMs) weight += Math.exp(-Math.max(0, nowMs - atMs) / faultMemoryMs)
  return 100 * (1 - anotherFault) ** weight
}

/** The straight line through two points, flat outside of them. */
function line(x: number, x0: number, y0: number, x1: number, y1: number): number {
  const share = Math.min(1, Math.max(0, (x - x0) / (x1 - x0)))
  return y0 + share * (y1 - y0)
}

const clamp = (value: number): number => Math.min(100, Math.max(0, value))

/**
 * The whole score: the components as chances to be well, multiplied (a noisy-or of what could be wrong), so one sick
 * part makes the device as sick as that part. What is unknown takes nothing off; it lowers `confidence`.
 */
export function scoreHealth(inputs: HealthInputs, levelBefore: HealthScore['level'] = 'unknown'): HealthScore {
  const components = healthComponents(inputs)
  const known = componentNames.flatMap((name) => components[name] ?? [])
  if (known.length === 0) return unknownHealth
  const score = 100 * known.reduce((product, component) => product * (component / 100), 1)
  return { score, confidence: known.length / componentNames.length, components, level: levelOf(score, levelBefore) }
}

/** The level with hysteresis: it worsens at one threshold and recovers at a higher one. */
export function levelOf(score: number, before: HealthScore['level']): HealthScore['level'] {
  const { critical, degraded } = levels
  if (score < (before === 'critical' ? critical.leave : critical.enter)) return 'critical'
  const wasUnwell = before === 'degraded' || before === 'critical'
  return score < (wasUnwell ? degraded.leave : degraded.enter) ? 'degraded' : 'good'
}

/** Before anything was measured. */
export const unknownHealth: HealthScore = { score: undefined, confidence: 0, components: {}, level: 'unknown' }
