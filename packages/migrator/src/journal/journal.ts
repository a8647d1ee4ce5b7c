import type { AbortOptions, ComputeTarget, MigrationInfo } from '@egpu/core'

/** As much of a target as is worth remembering. */
export type JournalTarget = Pick<ComputeTarget, 'id' | 'name' | 'kind' | 'runtime' | 'removable' | 'deviceId'>

/** What is remembered of one workload, besides its checkpoints. */
export interface JournalRecord {
  readonly workloadId: string
  readonly priority: number
  /** Where it works; absent while it is between targets, parked, or was closed. */
  readonly where?: JournalTarget | undefined
  /** Where it worked last. */
  readonly last?: JournalTarget | undefined
  /** The targets it was driven from and goes back to, first home first. */
  readonly homes: readonly JournalTarget[]
  /** The migration it is in. */
  readonly moving?: { readonly reason: MigrationInfo['reason']; readonly to?: JournalTarget | undefined } | undefined
  /** What died under it since it last got any further, by key and name. */
  readonly victims: readonly (readonly [key: string, name: string])[]
  /** Progress it had committed when the first of them died. */
  readonly victimsSince: number
}

/** What is remembered of one device. Times are wall-clock milliseconds since 1970. */
export interface DeviceRecord {
  /** Its id; of a target without one, the target's. */
  readonly key: string
  /** When it was lost or died, oldest first. */
  readonly faultsAtMs: readonly number[]
  /** When it died under which work, oldest first. `isPull`: it may have been the cable. */
  readonly deaths: readonly { readonly workloadId: string; readonly atMs: number; readonly isPull: boolean }[]
}

/**
 * Remembers what the migrator knows of its workloads, so that it survives the end of the process. Implementers: a record
 * is replaced whole, and is durable once `write` resolves; one that was damaged is left out of `load`.
 */
export interface MigrationJournal extends AsyncDisposable {
  load(options?: AbortOptions): Promise<readonly JournalRecord[]>
  write(record: JournalRecord, options?: AbortOptions): Promise<void>
  /** Resolves also when there is none. */
  remove(workloadId: string, options?: AbortOptions): Promise<void>
  /** Both optional: with them, what went wrong with devices outlives the process too. */
  loadDevices?(options?: AbortOptions): Promise<readonly DeviceRecord[]>
  writeDevice?(record: DeviceRecord, options?: AbortOptions): Promise<void>
  /** Calling it twice is fine. */
  close(): Promise<void>
}

export function journalTarget({ id, name, kind, runtime, removable, deviceId }: JournalTarget): JournalTarget {
  return { id, name, kind, runtime, removable, deviceId }
}

export function isDeviceRecord(value: unknown): value is DeviceRecord {
  const record = value as Partial<DeviceRecord> | null
  return (
    typeof record?.key === 'string' &&
    Array.isArray(record.faultsAtMs) &&
    record.faultsAtMs.every((atMs) => typeof atMs === 'number') &&
    Array.isArray(record.deaths) &&
    record.deaths.every(
      (death) =>
        typeof death?.workloadId === 'string' && typeof death.atMs === 'number' && typeof death.isPull === 'boolean',
    )
  )
}
