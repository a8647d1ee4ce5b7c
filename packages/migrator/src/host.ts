import type { EGpuManager } from '@egpu/core'

/**
 * What the migrator needs of an `EGpuManager`; with the devices and enclosures it also tells what fails together, with
 * `isMonitoring` it notices devices whose readings stop.
 */
export type MigratorHost = Pick<
  EGpuManager,
  'clock' | 'find' | 'targets' | 'openTarget' | 'on' | 'addGuest' | 'report'
> &
  Partial<Pick<EGpuManager, 'devices' | 'enclosures' | 'isMonitoring'>>
