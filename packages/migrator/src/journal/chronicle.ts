import type { Clock } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import type { JournalRecord, MigrationJournal } from './journal.ts'

export interface ChronicleOptions {
  readonly journal: MigrationJournal
  readonly clock: Clock
  /** How long one call into the journal may take. */
  readonly timeoutMs: number
  readonly onFailure: (error: unknown) => void
}

/** Writes one workload's record, one write at a time and always the newest: what came in between is skipped. */
export class Chronicle {
  readonly #options: ChronicleOptions
  #record: JournalRecord
  #isDue = false
  #writing: Promise<void> | undefined

  constructor(options: ChronicleOptions, record: JournalRecord) {
    this.#options = options
    this.#record = record
  }

  note(change: Partial<JournalRecord>): void {
    this.#record = { ...this.#record, ...change }
    this.#isDue = true
    this.#writing ??= this.#write()
  }

  /** Everything noted so far has been written, or has failed to be. */
  async settled(): Promise<void> {
    await this.#writing
  }

  /** There is nothing left to remember. */
  async remove(): Promise<void> {
    this.#isDue = false
    await this.#writing
    const { journal } = this.#options
    await this.#call((signal) => journal.remove(this.#record.workloadId, { signal }))
  }

  async #write(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false
      const record = this.#record
      await this.#call((signal) => this.#options.journal.write(record, { signal }))
    }
    this.#writing = undefined
  }

  async #call(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { clock, timeoutMs, onFailure } = this.#options
    const what = `the journal entry of ${this.#record.workloadId}`
    await withDeadline(work, { clock, ms: timeoutMs, what }).catch(onFailure)
  }
}
