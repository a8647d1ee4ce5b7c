import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import { EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import { linuxDriver } from '@egpu/driver-linux'
import { macosDriver, plistSource } from '@egpu/driver-macos'

export interface MachineOptions {
  /** A recorded Linux machine instead of this one. */
  readonly sysfsRoot?: string | undefined
  /** A dump of a Mac's registry (`ioreg -a -l`) instead of this machine. */
  readonly from?: string | undefined
}

/** Facts about the host that a reader of a report needs, nothing that names it; or where a recording was read from. */
export type MachineFacts =
  | { readonly platform: string; readonly arch: string; readonly kernel: string }
  | { readonly recordedAt: string }

export function machineFacts({ sysfsRoot, from }: MachineOptions): MachineFacts {
  const recordedAt = sysfsRoot ?? from
  return recordedAt === undefined ? { platform: process.platform, arch: arch(), kernel: release() } : { recordedAt }
}

/**
 * The drivers that look without touching: nothing here opens a device node or starts a graphics API, which would wake
 * a sleeping GPU.
 */
export function observingDrivers({ sysfsRoot, from }: MachineOptions): EGpuDriver[] {
  if (from !== undefined) return [macosDriver({ source: plistSource(readFileSync(from)) })]
  if (sysfsRoot !== undefined) return [linuxDriver({ sysfsRoot })]
  return [process.platform === 'darwin' ? macosDriver() : linuxDriver()]
}

export function openMachine(options: MachineOptions): Promise<EGpuManager> {
  return EGpuManager.create({ drivers: observingDrivers(options) })
}
