import type { DeviceRecord, JournalRecord, MigrationJournal } from '@egpu/migrator'

/** A journal in memory, with what was written. */
export interface Notebook extends MigrationJournal {
  readonly records: Map<string, JournalRecord>
  readonly devices: Map<string, DeviceRecord>
}

/** `fault`: what the next call does instead. */
export function notebook(fault?: () => 'throw' | 'hang' | undefined): Notebook {
  const records = new Map<string, JournalRecord>()
  const devices = new Map<string, DeviceRecord>()
  const misbehave = async (): Promise<void> => {
    const how = fault?.()
    if (how === 'throw') throw new Error('EIO')
    if (how === 'hang') await new Promise(() => undefined)
  }
  return {
    records,
    devices,
    async load() {
      await misbehave()
      return [...records.values()].map((record) => structuredClone(record))
    },
    async write(record) {
      await misbehave()
      records.set(record.workloadId, structuredClone(record))
    },
    async remove(workloadId) {
      await misbehave()
      records.delete(workloadId)
    },
    async loadDevices() {
      await misbehave()
      return [...devices.values()].map((record) => structuredClone(record))
    },
    async writeDevice(record) {
      await misbehave()
      devices.set(record.key, structuredClone(record))
    },
    close: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
