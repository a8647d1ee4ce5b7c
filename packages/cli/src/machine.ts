import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import { EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'

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
 * a sleeping GPU. Only what this machine, or the recording, needs is loaded.
 */
export async function observingDrivers({ sysfsRoot, from }: MachineOptions): Promise<EGpuDriver[]> {
  if (from !== undefined || (sysfsRoot === undefined && process.platform === 'darwin')) {
    const { macosDriver, plistSource } = await import('@egpu/driver-macos')
    return [from === undefined ? macosDriver() : macosDriver({ source: plistSource(readFileSync(from)) })]
  }
  const { linuxDriver } = await import('@egpu/driver-linux')
  return [sysfsRoot === undefined ? linuxDriver() : linuxDriver({ sysfsRoot })]
}

export async function openMachine(options: MachineOptions): Promise<EGpuManager> {
  return EGpuManager.create({ drivers: await observingDrivers(options) })
}
