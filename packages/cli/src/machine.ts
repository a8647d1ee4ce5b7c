import { arch, release } from 'node:os'
import { EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import { linuxDriver } from '@egpu/driver-linux'

export interface MachineOptions {
  /** A recorded machine instead of this one. */
  readonly sysfsRoot?: string | undefined
}

/** Facts about the host that a reader of a report needs; nothing that names it. */
export interface MachineFacts {
  readonly platform: string
  readonly arch: string
  readonly kernel: string
  /** Where a recorded machine was read from. */
  readonly recordedAt?: string
}

export function machineFacts({ sysfsRoot }: MachineOptions): MachineFacts {
  const facts = { platform: process.platform, arch: arch(), kernel: release() }
  return sysfsRoot === undefined ? facts : { ...facts, recordedAt: sysfsRoot }
}

/**
 * The drivers that look without touching: nothing here opens a device node or starts a graphics API, which would wake
 * a sleeping GPU.
 */
export function observingDrivers({ sysfsRoot }: MachineOptions): EGpuDriver[] {
  return [linuxDriver(sysfsRoot === undefined ? {} : { sysfsRoot })]
}

export function openMachine(options: MachineOptions): Promise<EGpuManager> {
  return EGpuManager.create({ drivers: observingDrivers(options) })
}
