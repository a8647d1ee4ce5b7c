import { accessSync, constants, statfsSync } from 'node:fs'
import { join } from 'node:path'
import type { RemovalContext } from './index.ts'

/** SYSFS_MAGIC of include/uapi/linux/magic.h. */
const sysfsMagic = 0x62656572

/** Why nothing may be changed on this machine through `attribute` (a path below its root); `undefined` when it may. */
export function obstacleTo(
  { sysfsRoot, procRoot, execute }: Pick<RemovalContext, 'sysfsRoot' | 'procRoot' | 'execute'>,
  attribute: string,
): string | undefined {
  // Steps also load and unload modules, which would happen to the machine that this runs on.
  if (execute === undefined && !isSysfs(sysfsRoot)) return 'this is a recorded machine, which is never changed'
  if (procRoot === undefined) return 'who holds it cannot be seen without the /proc of the same machine (procRoot)'
  return isWritable(join(sysfsRoot, attribute)) ? undefined : 'the steps need root: run them with sudo'
}

function isSysfs(root: string): boolean {
  try {
    return statfsSync(root).type === sysfsMagic
  } catch {
    return false
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}
