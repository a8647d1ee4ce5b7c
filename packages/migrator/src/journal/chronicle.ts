import type { AbortOptions, Clock } from '@egpu/core'
import { withDeadline } from '../deadline.ts'

export interface ChronicleOptions<T> {
  /** For the error's sentence. */
  readonly what: string
  readonly write: (record: T, options: AbortOptions) => Promise<void>
  readonly remove?: ((options: AbortOptions) => Promise<void>) | undefined
  readonly clock: Clock
  /** How long one call into the journal may take. */
  readonly timeoutMs: number
  readonly onFailure: (error: unknown) => void
}

/** Writes one record of the journal, one write at a time and always the newest: what came in between is skipped. */
export class Chronicle<T> {
  readonly #options: ChronicleOptions<T>
  #record: T
  #isDue = false
  #writing: Promise<void> | undefined

  constructor(options: ChronicleOptions<T>, record: T) {
    this.#options = options
    this.#record = record
  }

  note(change: Partial<T>): void {
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
    const { remove } = this.#options
    if (remove !== undefined) await this.#call((signal) => remove({ signal }))
  }

  async #write(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false
      const record = this.#record
      await this.#call((signal) => this.#options.write(record, { signal }))
    }
    this.#writing = undefined
  }

  async #call(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { what, clock, timeoutMs, onFailure } = this.#options
    await withDeadline(work, { clock, ms: timeoutMs, what }).catch(onFailure)
  }
}
