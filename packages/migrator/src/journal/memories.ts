import type { Clock } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { Chronicle } from './chronicle.ts'
import type { ChronicleOptions } from './chronicle.ts'
import { isDeviceRecord } from './journal.ts'
import type { DeviceRecord, JournalRecord, MigrationJournal } from './journal.ts'

export interface MemoriesOptions {
  readonly journal: MigrationJournal
  readonly clock: Clock
  readonly timeoutMs: number
  /** `workloadId`: the one that the journal failed to remember; empty for devices, and for all of them. */
  readonly onFailure: (workloadId: string, error: unknown) => void
}

/** What an earlier process left in the journal, read once, and the writing of what this one adds. */
export class Memories {
  readonly #options: MemoriesOptions
  #workloads: Promise<Map<string, JournalRecord>> | undefined
  #devices: Promise<readonly DeviceRecord[]> | undefined

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
  ): Promise<{ readonly before: JournalRecord | undefined; readonly chronicle: Chronicle<JournalRecord> }> {
    const { journal } = this.#options
    const records = await this.#load()
    const before = records.get(workloadId)
    records.delete(workloadId)
    const chronicle = this.#chronicle<JournalRecord>(
      workloadId,
      (record, options) => journal.write(record, options),
      { workloadId, priority, homes: [], victims: [], victimsSince: -1, ...before },
      (options) => journal.remove(workloadId, options),
    )
    return { before, chronicle }
  }

  /** What went wrong with devices; empty for a journal that does not keep it. */
  devices(): Promise<readonly DeviceRecord[]> {
    const { journal } = this.#options
    return (this.#devices ??= this.#read((options) => journal.loadDevices?.(options) ?? Promise.resolve([])).then(
      (records) => records.filter(isDeviceRecord),
    ))
  }

  /** Who writes down what goes wrong with one device. */
  deviceChronicle(key: string): Chronicle<DeviceRecord> {
    const { journal } = this.#options
    return this.#chronicle<DeviceRecord>(
      '',
      (record, options) => journal.writeDevice?.(record, options) ?? Promise.resolve(),
      { key, faultsAtMs: [], deaths: [] },
    )
  }

  #chronicle<T>(
    workloadId: string,
    write: ChronicleOptions<T>['write'],
    record: T,
    remove?: ChronicleOptions<T>['remove'],
  ): Chronicle<T> {
    const { clock, timeoutMs, onFailure } = this.#options
    const what = `the journal entry of ${workloadId === '' ? 'a device' : workloadId}`
    return new Chronicle<T>(
      { what, write, remove, clock, timeoutMs, onFailure: (error) => onFailure(workloadId, error) },
      record,
    )
  }

  #load(): Promise<Map<string, JournalRecord>> {
    const { journal } = this.#options
    return (this.#workloads ??= this.#read((options) => journal.load(options)).then(
      (records) => new Map(records.map((record) => [record.workloadId, record])),
    ))
  }

  /** A journal that cannot be read now costs what it remembers, not the work. */
  async #read<T>(load: (options: { signal: AbortSignal }) => Promise<readonly T[]>): Promise<readonly T[]> {
    const { clock, timeoutMs, onFailure } = this.#options
    try {
      return await withDeadline((signal) => load({ signal }), { clock, ms: timeoutMs, what: 'reading the journal' })
    } catch (error) {
      onFailure('', error)
      return []
    }
  }
}
