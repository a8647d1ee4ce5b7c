import type { ComputeTarget, TargetLoss } from '@egpu/core'
import type { JournalRecord } from '../journal/journal.ts'
import { standingKey } from '../placement/stability.ts'

/** So many different devices that died under the same work, without it getting anywhere, are no coincidence. */
const mostVictims = 3

/** A cable that was pulled is nobody's fault; these may be the work's own. */
const suspicious: ReadonlySet<TargetLoss['reason']> = new Set(['hung', 'reset', 'process-crash'])

/**
 * Notices work that kills the devices it runs on: an endless shader resets one GPU after the other. Committed progress
 * clears it of the suspicion.
 */
export class PoisonWatch {
  readonly #victims = new Map<string, string>()
  #progress = -1

  /** `savedProgress`: of the newest checkpoint. */
  lost(target: ComputeTarget, reason: TargetLoss['reason'], savedProgress: number | undefined): void {
    if (savedProgress !== undefined && savedProgress > this.#progress) {
      this.#progress = savedProgress
      this.#victims.clear()
    }
    if (suspicious.has(reason)) this.#victims.set(standingKey(target), target.name)
  }

  /** As remembered from an earlier process. */
  recall(victims: JournalRecord['victims'], progress: number): void {
    for (const [key, name] of victims) this.#victims.set(key, name)
    this.#progress = progress
  }

  /** What is to be remembered. */
  get memory(): Pick<JournalRecord, 'victims' | 'victimsSince'> {
    return { victims: [...this.#victims], victimsSince: this.#progress }
  }

  /** Names of the devices that it killed, once they are too many. */
  get victims(): readonly string[] | undefined {
    return this.#victims.size >= mostVictims ? [...this.#victims.values()] : undefined
  }
}
