import type { Attribute } from '../sysfs/attributes.ts'
import type { Sysfs, Unreadable } from '../sysfs/sysfs.ts'
import type { UsbDeviceFacts } from '../usb/findings.ts'

/** Everything one look at a tree asked for, and what it was answered, by the path that was asked for. */
export interface TreeRecording {
  readonly reads: Readonly<Record<string, string | Unreadable>>
  readonly lists: Readonly<Record<string, readonly string[]>>
  readonly links: Readonly<Record<string, string>>
}

/**
 * A machine as one look at it saw it, to be looked at again elsewhere: plain data that survives JSON. `recordMachine`
 * makes it, without serial numbers, unique ids and host names; `linuxDriver({ recording })` reads it.
 */
export interface MachineRecording {
  readonly kind: 'egpu-linux-recording'
  readonly version: 1
  readonly sysfs: TreeRecording
  readonly proc: TreeRecording
  readonly usb: readonly UsbDeviceFacts[]
}

/** Answers as the recorded machine did. What was not asked then is not there. */
export function recordedTree({ reads, lists, links }: TreeRecording): Sysfs {
  const own = <T>(record: Readonly<Record<string, T>>, key: string): T | undefined =>
    Object.hasOwn(record, key) ? record[key] : undefined
  return {
    read: (directory, attribute) => own(reads, `${directory}/${attribute}`) ?? { error: 'ENOENT' },
    list: (directory) => own(lists, directory) ?? [],
    link: (path) => own(links, path),
  }
}

/** A reader that notes everything it is asked and what it answered. */
export function recordingTree(tree: Sysfs): Sysfs & { readonly recording: TreeRecording } {
  const reads: Record<string, string | Unreadable> = {}
  const lists: Record<string, readonly string[]> = {}
  const links: Record<string, string> = {}
  return {
    recording: { reads, lists, links },
    read: (directory: string, attribute: Attribute) =>
      (reads[`${directory}/${attribute}`] = tree.read(directory, attribute)),
    list: (directory) => (lists[directory] = tree.list(directory)),
    link(path) {
      const target = tree.link(path)
      if (target !== undefined) links[path] = target
      return target
    },
  }
}
