import { withDeadline } from '../deadline.ts'
import type { Clock } from '@egpu/core'
import { Chronicle } from './chronicle.ts'
import type { JournalRecord, MigrationJournal } from './journal.ts'

export interface MemoriesOptions {
  readonly journal: MigrationJournal
  readonly clock: Clock
  readonly timeoutMs: number
  readonly onFailure: (workloadId: string, error: unknown) => void
}

/** What an earlier process left in the journal, read once, and the writing of what this one adds. */
export class Memories {
  readonly #options: MemoriesOptions
  #loading: Promise<Map<string, JournalRecord>> | undefined

  constructor(options: MemoriesOptions) {
    this.#options = options
  }

  /** Records of workloads that have not been run again. */
  async interrupted(): Promise<readonly JournalRecord[]> {
    return [...(await this.#load()).values()]
  }

  /** Takes over a workload: what was known of it, and who writes down what becomes of it. */
  async takeUp(
    workloadId: string,
    priority: number,
  ): Promise<{ readonly before: JournalRecord | undefined; readonly chronicle: Chronicle }> {
    const { journal, clock, timeoutMs, onFailure } = this.#options
    const records = await this.#load()
    const before = records.get(workloadId)
    records.delete(workloadId)
    const chronicle = new Chronicle(
      { journal, clock, timeoutMs, onFailure: (error) => onFailure(workloadId, error) },
      { workloadId, priority, homes: [], victims: [], victimsSince: -1, ...before },
    )
    return { before, chronicle }
  }

  /** A journal that cannot be read now costs what it remembers, not the work. */
  #load(): Promise<Map<string, JournalRecord>> {
    return (this.#loading ??= this.#read())
  }

  async #read(): Promise<Map<string, JournalRecord>> {
    const { journal, clock, timeoutMs, onFailure } = this.#options
    try {
      const load = (signal: AbortSignal): Promise<readonly JournalRecord[]> => journal.load({ signal })
      const records = await withDeadline(load, { clock, ms: timeoutMs, what: 'reading the journal' })
      return new Map(records.map((record) => [record.workloadId, record]))
    } catch (error) {
      onFailure('', error)
      return new Map()
    }
  }
}
