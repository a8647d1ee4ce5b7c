import { readFileSync, statSync } from 'node:fs'
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

/** The driver that reads a recording; `EGPU_MALFORMED_DATA` with the file's name when it is none. */
async function recordedDriver(file: string): Promise<EGpuDriver> {
  const bytes = contentOf(file)
  const refuse = (why: string, cause?: unknown): never => {
    throw new EGpuError(EGpuErrorCode.MalformedData, `${file} cannot be read: ${why}`, { cause })
  }
  const begin = bytes.subarray(0, 100)
  if (isPropertyList(begin)) {
    const { macosDriver, plistSource } = await import('@egpu/driver-macos')
    const driver = macosDriver({ source: plistSource(bytes) })
    const probe = await driver.probe()
    return probe.usable ? driver : refuse(probe.reason, probe.cause)
  }
  if (!/^[\s\uFEFF]*\{/.test(begin.toString('utf8')))
    return refuse('it is no recording; `egpu dump -o <file>` makes one, and on a Mac `ioreg -a -l -i -w0 > <file>` too')
  const { checkRecording, linuxDriver } = await import('@egpu/driver-linux')
  try {
    return linuxDriver({ recording: checkRecording(JSON.parse(bytes.toString('utf8').replace(/^\uFEFF/, ''))) })
  } catch (error) {
    if (EGpuError.is(error)) return refuse(error.message, error)
    return refuse(`it is not whole (${(error as Error).message}); record it again with egpu dump`, error)
  }
}

function contentOf(file: string): Buffer {
  try {
    // A terminal or /dev/zero would never come to an end; a pipe does.
    if (statSync(file).isCharacterDevice())
      throw new EGpuError(EGpuErrorCode.MalformedData, `${file} is a device, no file`)
    return readFileSync(file)
  } catch (error) {
    if (EGpuError.is(error)) throw error
    // Node names no path when it is a directory.
    throw Object.assign(error as NodeJS.ErrnoException, { path: file })
  }
}

/** XML, saved as UTF-8 or by PowerShell as UTF-16, or binary. */
function isPropertyList(begin: Buffer): boolean {
  return [begin.toString('utf8'), begin.toString('utf16le')].some((text) => /^[\s\uFEFF]*(?:<|bplist)/.test(text))
}
