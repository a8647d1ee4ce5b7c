import { createHash } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { JournalRecord, MigrationJournal } from './journal.ts'

/**
 * Keeps the journal in a directory, one small file per workload: written aside, flushed, renamed into place, and the
 * directory flushed. One migrator at a time; the lock of its checkpoint store sees to that.
 */
export function directoryJournal(directory: string): MigrationJournal {
  // Ids may be anything, file names may not.
  const pathOf = (workloadId: string): string =>
    join(directory, `${createHash('sha256').update(workloadId).digest('hex').slice(0, 40)}.json`)
  let isReady: Promise<unknown> | undefined
  const ready = (): Promise<unknown> => (isReady ??= mkdir(directory, { recursive: true }))
  const flush = async (): Promise<void> => {
    const handle = await open(directory)
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
  const close = (): Promise<void> => Promise.resolve()
  return {
    async load({ signal } = {}) {
      await ready()
      const names = (await readdir(directory)).filter((name) => name.endsWith('.json'))
      const records = await Promise.all(names.map((name) => readRecord(join(directory, name), signal)))
      return records.filter((record) => record !== undefined)
    },
    async write(record, { signal } = {}) {
      await ready()
      signal?.throwIfAborted()
      const path = pathOf(record.workloadId)
      const aside = `${path}.new`
      const handle = await open(aside, 'w')
      try {
        await handle.writeFile(JSON.stringify(record))
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(aside, path)
      await flush()
    },
    async remove(workloadId, { signal } = {}) {
      await ready()
      signal?.throwIfAborted()
      await rm(pathOf(workloadId), { force: true })
      await flush()
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** `undefined` for what is no record, or no longer. */
async function readRecord(path: string, signal: AbortSignal | undefined): Promise<JournalRecord | undefined> {
  try {
    const value = JSON.parse(await readFile(path, { encoding: 'utf8', signal })) as Partial<JournalRecord> | null
    const isRecord =
      typeof value?.workloadId === 'string' &&
      typeof value.priority === 'number' &&
      typeof value.victimsSince === 'number' &&
      Array.isArray(value.homes) &&
      Array.isArray(value.victims)
    return isRecord ? (value as JournalRecord) : undefined
  } catch {
    signal?.throwIfAborted()
    return undefined
  }
}
