import type { Chronicle } from '../journal/chronicle.ts'
import type { JournalRecord } from '../journal/journal.ts'
import type { RunContext } from './context.ts'
import type { Homes } from './homes.ts'
import type { PoisonWatch } from './poison.ts'

export interface RecollectionOptions {
  readonly context: RunContext
  readonly workloadId: string
  readonly priority: number
  readonly homes: Homes
  readonly poison: PoisonWatch
}

/** What is remembered of one workload beyond the end of the process, where there is a journal. */
export class Recollection {
  readonly #options: RecollectionOptions
  #chronicle: Chronicle<JournalRecord> | undefined

  constructor(options: RecollectionOptions) {
    this.#options = options
  }

  /** Takes over what an earlier process knew; resolves with the target that the work was on, or on its way to. */
  async recall(): Promise<string | undefined> {
    const { context, workloadId, priority, homes, poison } = this.#options
    await context.past.recall()
    const memory = await context.memories?.takeUp(workloadId, priority)
    this.#chronicle = memory?.chronicle
    const before = memory?.before
    if (before === undefined) return undefined
    for (const home of before.homes) homes.drivenFrom(home)
    poison.recall(before.victims, before.victimsSince)
    return (before.moving?.to ?? before.where ?? before.last)?.id
  }

  note(change: Partial<JournalRecord>): void {
    const { homes, poison } = this.#options
    this.#chronicle?.note({ ...change, homes: homes.memory, ...poison.memory })
  }

  /** The work is done. */
  async forget(): Promise<void> {
    await this.#chronicle?.remove()
  }

  /** It is not, and will be gone on with. */
  async keep(): Promise<void> {
    this.note({ where: undefined, moving: undefined })
    await this.#chronicle?.settled()
  }
}
