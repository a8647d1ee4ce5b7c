/**
 * A device that dies so often under the same work will do so again: a supply that cannot bear that load, memory that is
 * bad where only this work gets.
 */
const mostDeaths = 3

/** A cable that comes out looks like a supply that gave in, so it takes more of those. */
const mostPulls = 5

/** Deaths further apart than this are no habit; the quarantine ends when the last of them is as old. */
const habitMs = 3_600_000

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
    const deaths = (this.#deaths.get(key) ?? []).filter(({ atMs }) => death.atMs - atMs < 2 * habitMs)
    this.#deaths.set(key, [...deaths, death].slice(-50))
  }

  deaths(key: string): readonly Death[] {
    return this.#deaths.get(key) ?? []
  }

  /** Why this workload had better go elsewhere, as the end of a sentence. */
  reason(key: string, workloadId: string, nowMs: number): string | undefined {
    return this.#reason(key, workloadId, nowMs, isHabit)
  }

  /**
   * Why it is not to go there even if there is nothing else: it hangs or resets the device. Where that may have been the
   * cable, work on a device that goes now and then is better than none.
   */
  bar(key: string, workloadId: string, nowMs: number): string | undefined {
    const why = this.#reason(key, workloadId, nowMs, isOwnHabit)
    return why && `${why}; until an hour after the last time, or migrator.trust('${key}')`
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

  #reason(key: string, workloadId: string, nowMs: number, isBad: typeof isHabit): string | undefined {
    const deaths = this.deaths(key)
    const under = (id: string): readonly Death[] =>
      recent(
        deaths.filter((death) => death.workloadId === id),
        nowMs,
      )
    const culprits = [...new Set(deaths.map((death) => death.workloadId))].filter((id) => isBad(under(id)))
    if (culprits.includes(workloadId)) return `died ${under(workloadId).length} times within an hour under this work`
    return culprits.length > 1 ? `died again and again under ${culprits.join(', ')}` : undefined
  }
}

/** Those up to an hour before the last, until that is an hour old. */
function recent(deaths: readonly Death[], nowMs: number): readonly Death[] {
  const lastMs = deaths.at(-1)?.atMs ?? -Infinity
  return nowMs - lastMs < habitMs ? deaths.filter(({ atMs }) => lastMs - atMs < habitMs) : []
}

function isHabit(deaths: readonly Death[]): boolean {
  return isOwnHabit(deaths) || deaths.length >= mostPulls
}

/** Of the device, whatever may have happened to its cable. */
function isOwnHabit(deaths: readonly Death[]): boolean {
  return deaths.filter(({ isPull }) => !isPull).length >= mostDeaths
}
