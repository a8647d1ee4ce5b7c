import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import { EGpuError, EGpuErrorCode, EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'

export interface MachineOptions {
  /** A recorded Linux machine instead of this one. */
  readonly sysfsRoot?: string | undefined
  /** What `egpu dump` wrote, or a dump of a Mac's registry (`ioreg -a -l`), instead of this machine. */
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
  if (from !== undefined) return [await recordedDriver(from)]
  if (sysfsRoot === undefined && process.platform === 'darwin') {
    const { macosDriver } = await import('@egpu/driver-macos')
    return [macosDriver()]
  }
  const { linuxDriver } = await import('@egpu/driver-linux')
  return [sysfsRoot === undefined ? linuxDriver() : linuxDriver({ sysfsRoot })]
}

export async function openMachine(options: MachineOptions): Promise<EGpuManager> {
  return EGpuManager.create({ drivers: await observingDrivers(options) })
}

/** Property lists are XML or binary; a recording of a Linux machine is JSON. */
async function recordedDriver(file: string): Promise<EGpuDriver> {
  const bytes = readFileSync(file)
  if (!/^\s*\{/.test(bytes.subarray(0, 100).toString('latin1'))) {
    const { macosDriver, plistSource } = await import('@egpu/driver-macos')
    return macosDriver({ source: plistSource(bytes) })
  }
  const { checkRecording, linuxDriver } = await import('@egpu/driver-linux')
  let recording: unknown
  try {
    recording = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    const message = `${file} is not whole: ${(error as Error).message}; record it again with egpu dump`
    throw new EGpuError(EGpuErrorCode.MalformedData, message, { cause: error })
  }
  return linuxDriver({ recording: checkRecording(recording) })
}
