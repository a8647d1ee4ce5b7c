import { opendir } from 'node:fs/promises'
import { arch, release } from 'node:os'
import { EGpuError, EGpuErrorCode, EGpuManager } from '@egpu/core'
import type { EGpuDriver } from '@egpu/core/driver'
import { nameOf, readRecording } from './recording-file.ts'

export interface MachineOptions {
  /** A recorded Linux machine instead of this one. */
  readonly sysfsRoot?: string | undefined
  /** What `egpu dump` wrote, or a dump of a Mac's registry (`ioreg -a -l`), instead of this machine; `-` for standard input. */
  readonly from?: string | undefined
}

/** Facts about the host that a reader of a report needs, nothing that names it; or where a recording was read from. */
export type MachineFacts =
  | { readonly platform: string; readonly arch: string; readonly kernel: string }
  | { readonly recordedAt: string }

export function machineFacts({ sysfsRoot, from }: MachineOptions): MachineFacts {
  const recordedAt = recordingOf({ sysfsRoot, from })
  return recordedAt === undefined ? { platform: process.platform, arch: arch(), kernel: release() } : { recordedAt }
}

/** Where the machine was recorded that is looked at; `undefined` for this machine. */
export function recordingOf({ sysfsRoot, from }: MachineOptions): string | undefined {
  return sysfsRoot ?? (from === undefined ? undefined : nameOf(from))
}

/**
 * The drivers that look without touching: nothing here opens a device node or starts a graphics API, which would wake
 * a sleeping GPU. Only what this machine, or the recording, needs is loaded.
 */
export async function observingDrivers(
  { sysfsRoot, from }: MachineOptions,
  signal: AbortSignal,
): Promise<EGpuDriver[]> {
  if (from !== undefined) return [await recordedDriver(from, signal)]
  if (sysfsRoot === undefined && process.platform === 'darwin') {
    const { macosDriver } = await import('@egpu/driver-macos')
    return [macosDriver()]
  }
  // So that it is said what is wrong with the place, before what is wrong with the machine there.
  if (sysfsRoot !== undefined) await (await opendir(sysfsRoot)).close()
  const { linuxDriver } = await import('@egpu/driver-linux')
  return [sysfsRoot === undefined ? linuxDriver() : linuxDriver({ sysfsRoot })]
}

export async function openMachine(options: MachineOptions, signal: AbortSignal): Promise<EGpuManager> {
  return EGpuManager.create({ drivers: await observingDrivers(options, signal), signal })
}

/** The driver that reads a recording; `EGPU_MALFORMED_DATA` with the file's name when it is none. */
async function recordedDriver(file: string, signal: AbortSignal): Promise<EGpuDriver> {
  const bytes = await readRecording(file, signal)
  const refuse = (why: string, cause?: unknown): never => {
    throw new EGpuError(EGpuErrorCode.MalformedData, `${nameOf(file)} cannot be read: ${why}`, { cause })
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

/** XML, saved as UTF-8 or by PowerShell as UTF-16, or binary. */
function isPropertyList(begin: Buffer): boolean {
  return [begin.toString('utf8'), begin.toString('utf16le')].some((text) => /^[\s\uFEFF]*(?:<|bplist)/.test(text))
}
