import { createHash } from 'node:crypto'
import { open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory } from '../node/make-directory.ts'
import { isDeviceRecord } from './journal.ts'
import type { JournalRecord, MigrationJournal } from './journal.ts'

/**
 * Keeps the journal in a directory, one small file per workload, and one per device in `devices`: written aside, flushed,
 * renamed into place, and the directory flushed. One migrator at a time; the lock of its checkpoint store sees to that.
 */
export function directoryJournal(directory: string): MigrationJournal {
  const workloads = new Drawer(directory, isJournalRecord)
  const devices = new Drawer(join(directory, 'devices'), isDeviceRecord)
  const close = (): Promise<void> => Promise.resolve()
  return {
    load: ({ signal } = {}) => workloads.load(signal),
    write: (record, { signal } = {}) => workloads.write(record.workloadId, record, signal),
    remove: (workloadId, { signal } = {}) => workloads.remove(workloadId, signal),
    loadDevices: ({ signal } = {}) => devices.load(signal),
    writeDevice: (record, { signal } = {}) => devices.write(record.key, record, signal),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Records of one kind, each in a file of its own. */
class Drawer<T> {
  readonly #directory: string
  readonly #isRecord: (value: unknown) => value is T
  #ready: Promise<unknown> | undefined

  constructor(directory: string, isRecord: (value: unknown) => value is T) {
    this.#directory = directory
    this.#isRecord = isRecord
  }

  async load(signal: AbortSignal | undefined): Promise<readonly T[]> {
    await this.#make()
    const names = (await readdir(this.#directory)).filter((name) => name.endsWith('.json'))
    const records = await Promise.all(names.map((name) => this.#read(join(this.#directory, name), signal)))
    return records.filter((record) => record !== undefined)
  }

  async write(id: string, record: T, signal: AbortSignal | undefined): Promise<void> {
    await this.#make()
    signal?.throwIfAborted()
    const path = this.#pathOf(id)
    const aside = `${path}.new`
    const handle = await open(aside, 'w')
    try {
      await handle.writeFile(JSON.stringify(record))
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(aside, path)
    await this.#flush()
  }

  async remove(id: string, signal: AbortSignal | undefined): Promise<void> {
    await this.#make()
    signal?.throwIfAborted()
    await rm(this.#pathOf(id), { force: true })
    await this.#flush()
  }

  /** `undefined` for what is no record, or no longer. */
  async #read(path: string, signal: AbortSignal | undefined): Promise<T | undefined> {
    try {
      const value: unknown = JSON.parse(await readFile(path, { encoding: 'utf8', signal }))
      return this.#isRecord(value) ? value : undefined
    } catch {
      signal?.throwIfAborted()
      return undefined
    }
  }

  async #flush(): Promise<void> {
    const handle = await open(this.#directory)
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }

  /** What failed is tried again by the next call. */
  async #make(): Promise<void> {
    this.#ready ??= makeDirectory(this.#directory)
    await this.#ready.catch((error: unknown) => {
      this.#ready = undefined
      throw error
    })
  }

  /** Ids may be anything, file names may not. */
  #pathOf(id: string): string {
    return join(this.#directory, `${createHash('sha256').update(id).digest('hex').slice(0, 40)}.json`)
  }
}

function isJournalRecord(value: unknown): value is JournalRecord {
  const record = value as Partial<JournalRecord> | null
  return (
    typeof record?.workloadId === 'string' &&
    typeof record.priority === 'number' &&
    typeof record.victimsSince === 'number' &&
    Array.isArray(record.homes) &&
    Array.isArray(record.victims)
  )
}
