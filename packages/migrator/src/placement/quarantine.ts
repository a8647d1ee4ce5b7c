/**
 * A device that dies so often under the same work will do so again: a supply that cannot bear that load, memory that is
 * bad where only this work gets. A pulled cable looks like a supply that gave in, so it takes more of those.
 */
const mostDeaths = 3
const mostPulls = 5

/** Deaths further apart than this are no habit; the quarantine ends when the last of them is as old. */
const memoryMs = 3_600_000

/** A device died under a workload. `isPull`: it may have been the cable. */
export interface Death {
  readonly atMs: number
  readonly workloadId: string
  readonly isPull: boolean
}

/** Keeps work away from devices that keep dying under it, and everything from those that die under all. */
export class Quarantine {
  readonly #deaths = new Map<string, Death[]>()

  note(key: string, death: Death): void {
    const deaths = (this.#deaths.get(key) ?? []).filter(({ atMs }) => death.atMs - atMs < memoryMs)
    this.#deaths.set(key, [...deaths, death].slice(-50))
  }

  deaths(key: string): readonly Death[] {
    return this.#deaths.get(key) ?? []
  }

  /** Why this workload is not to go there, as the end of a sentence. */
  reason(key: string, workloadId: string, nowMs: number): string | undefined {
    const deaths = this.#deaths.get(key)
    if (deaths === undefined) return undefined
    const recent = deaths.filter(({ atMs }) => nowMs - atMs < memoryMs)
    const culprits = [...new Set(recent.map((death) => death.workloadId))].filter((id) => isHabit(recent, id))
    if (culprits.includes(workloadId)) return `died ${recent.length} times within an hour, each time under this work`
    return culprits.length > 1 ? `died again and again under ${culprits.join(', ')}` : undefined
  }

  /** Devices that some work is kept away from. */
  keys(nowMs: number): readonly string[] {
    return [...this.#deaths].flatMap(([key, deaths]) =>
      deaths.some(({ workloadId }) => this.reason(key, workloadId, nowMs) !== undefined) ? [key] : [],
    )
  }

  /** Somebody has seen to it. */
  lift(key: string): void {
    this.#deaths.delete(key)
  }
}

function isHabit(deaths: readonly Death[], workloadId: string): boolean {
  const own = deaths.filter((death) => death.workloadId === workloadId)
  const pulls = own.filter(({ isPull }) => isPull).length
  return own.length - pulls >= mostDeaths || own.length >= mostPulls
}
