import { directoryJournal as journalIn } from '../journal/directory-journal.ts'
import type { MigrationJournal } from '../journal/journal.ts'
import { Place } from './place.ts'

/**
 * Keeps the journal in a directory, one small file per workload, and one per device in `devices`: written aside, flushed,
 * renamed into place, and the directory flushed. One migrator at a time; the lock of its checkpoint store sees to that.
 * Throws a `TypeError` for an empty path; calls reject with `EGPU_CHECKPOINT_FAILED` where the directory cannot be used.
 */
export function directoryJournal(directory: string): MigrationJournal {
  const place = new Place('the journal', directory)
  const journal = journalIn(place.path)
  const close = (): Promise<void> => journal.close()
  return {
    load: (options) => place.use(() => journal.load(options)),
    write: (record, options) => place.use(() => journal.write(record, options)),
    remove: (workloadId, options) => place.use(() => journal.remove(workloadId, options)),
    loadDevices: (options) => place.use(async () => (await journal.loadDevices?.(options)) ?? []),
    writeDevice: (record, options) => place.use(async () => journal.writeDevice?.(record, options)),
    close,
    [Symbol.asyncDispose]: close,
  }
}
