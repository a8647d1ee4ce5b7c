import type { AbortOptions } from '@egpu/core'
import { openSysfs } from '../sysfs/sysfs.ts'
import { readTopology } from '../topology/read-topology.ts'
import { withDisks } from '../usb/index.ts'
import { listUsb, type ListUsb } from '../usb/list-usb.ts'
import { recordingTree, type MachineRecording } from './recording.ts'
import { redacted } from './redact.ts'

export interface RecordMachineOptions extends AbortOptions {
  /** `/sys`, or a directory recorded from another machine. */
  readonly sysfsRoot?: string | undefined
  /** `/proc`; only the kernel's release is read there. With another `sysfsRoot` there is none unless given. */
  readonly procRoot?: string | undefined
  /** By default the `usb` package for this machine, and nothing for a recorded one. */
  readonly listUsb?: ListUsb | undefined
}

/**
 * Records what `linuxDriver` would read of this machine, to be sent to somebody who can explain it: no serial numbers,
 * no unique ids, no host names, nothing that was not needed. Wakes nothing. Rejects only with the abort reason.
 */
export async function recordMachine(options: RecordMachineOptions = {}): Promise<MachineRecording> {
  const { sysfsRoot = '/sys', signal } = options
  const isThisMachine = options.sysfsRoot === undefined
  const procRoot = options.procRoot ?? (isThisMachine ? '/proc' : undefined)
  const sysfs = recordingTree(openSysfs(sysfsRoot))
  const proc = recordingTree(openSysfs(procRoot ?? '/nowhere'))
  await readTopology(sysfs, { signal, proc })
  const usb = await (options.listUsb ?? (isThisMachine ? listUsb : async () => []))()
  return {
    kind: 'egpu-linux-recording',
    version: 1,
    sysfs: redacted(sysfs.recording),
    proc: proc.recording,
    usb: withDisks(usb, sysfsRoot),
  }
}
