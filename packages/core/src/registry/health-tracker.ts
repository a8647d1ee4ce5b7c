import type { HealthSample, HealthScore } from '../types/health.ts'
import { addErrors, decayedErrors, scoreHealth, unknownHealth } from './health-score.ts'
import type { ErrorPressure } from './health-score.ts'

/** A level stays at least this long before it may improve, as health checks of clusters do it; it worsens at once. */
const minimumDwellMs = 30_000

/** Points the score has to move within one level before it is news. Sensors jitter by less. */
const newsworthyPoints = 5

/** Faults further back have faded to nothing (`health-score.ts`), so no more are kept. */
const faultsKept = 50

/** Before and after, when there is something to tell. */
export interface HealthChange {
  readonly before: HealthScore
  readonly after: HealthScore
}

/** Follows the health of one device over time. `nowMs` is the caller's clock throughout. */
export class HealthTracker {
  readonly #lastBySource = new Map<string, HealthSample>()
  readonly #errorsBySource = new Map<string, ErrorPressure>()
  readonly #faultsAtMs: number[] = []
  #merged: HealthSample | undefined
  #level: HealthScore['level'] = 'unknown'
  #levelSinceMs = Number.NEGATIVE_INFINITY
  #told: HealthScore = unknownHealth

  /** As last told; `current` looks again. */
  get told(): HealthScore {
    return this.#told
  }

  /**
   * Takes a sample of one source. Each source has its own error totals; for everything else the newest known value
   * counts, whoever read it.
   */
  sample(source: string, sample: HealthSample, nowMs: number): HealthChange | undefined {
    const fresh = known(sample)
    const last = this.#lastBySource.get(source)
    const errors = addErrors(this.#errorsBySource.get(source), last, fresh, nowMs)
    if (errors !== undefined) this.#errorsBySource.set(source, errors)
    this.#lastBySource.set(source, { ...last, ...fresh })
    this.#merged = { ...this.#merged, ...fresh }
    return this.#look(nowMs)
  }

  /** The device was lost or wedged. */
  fault(nowMs: number): HealthChange | undefined {
    this.#faultsAtMs.push(nowMs)
    if (this.#faultsAtMs.length > faultsKept) this.#faultsAtMs.shift()
    return this.#look(nowMs)
  }

  /** It came back: what was measured before says nothing about it now; what went wrong still counts. */
  restart(nowMs: number): HealthChange | undefined {
    this.#merged = undefined
    this.#lastBySource.clear()
    this.#level = 'unknown'
    return this.#look(nowMs)
  }

  current(nowMs: number): HealthScore {
    const watched = this.#merged !== undefined || this.#faultsAtMs.length > 0
    // Two drivers that count errors count the same ones, so the worse count is taken and not the sum.
    const [worst] = [...this.#errorsBySource.values()].sort((a, b) => decayedErrors(b, nowMs) - decayedErrors(a, nowMs))
    const inputs = { sample: this.#merged, errors: worst, faultsAtMs: watched ? this.#faultsAtMs : undefined, nowMs }
    const score = scoreHealth(inputs, this.#level)
    const improves = rank[score.level] < rank[this.#level] && this.#level !== 'unknown'
    return improves && nowMs - this.#levelSinceMs < minimumDwellMs ? { ...score, level: this.#level } : score
  }

  #look(nowMs: number): HealthChange | undefined {
    const before = this.#told
    const after = this.current(nowMs)
    if (after.level !== this.#level) {
      this.#level = after.level
      this.#levelSinceMs = nowMs
    }
    const moved = Math.abs((after.score ?? 0) - (before.score ?? 0)) >= newsworthyPoints
    if (after.level === before.level && after.confidence === before.confidence && !moved) return undefined
    this.#told = after
    return { before, after }
  }
}

const rank: Readonly<Record<HealthScore['level'], number>> = { unknown: 0, good: 1, degraded: 2, critical: 3 }

/** Without what is absent or cannot be: NaN, infinite, or less than nothing where that makes no sense. */
function known(sample: HealthSample): HealthSample {
  return Object.fromEntries(
    Object.entries(sample).filter(
      ([name, value]) => Number.isFinite(value) && (value >= 0 || name.endsWith('Celsius') || name === 'atMs'),
    ),
  ) as unknown as HealthSample
}
