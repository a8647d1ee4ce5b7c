import type { EGpuManager } from '@egpu/core'

/** What the migrator needs of an `EGpuManager`. */
export type MigratorHost = Pick<EGpuManager, 'clock' | 'find' | 'targets' | 'openTarget' | 'on' | 'addGuest' | 'report'>
