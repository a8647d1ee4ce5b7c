import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { readQuietly } from '../quiet-files.ts'
import { parseUevent, pciAddressPattern } from '../sysfs/parse.ts'

/** A node below `/dev` that belongs to a function of the card. */
export interface DeviceNode {
  /** `/dev/dri/card1`. */
  readonly path: string
  /** `major:minor`, which a renamed or bind-mounted node keeps. */
  readonly number?: string | undefined
  /** Open nodes of this kind do not hinder a removal: the kernel disconnects them cleanly. */
  readonly harmless: boolean
}

/** Class devices hang a few levels below their function: `drm/card1`, `usb3/3-1/3-1:1.0/host6/target…/block/sda/sda1`. */
const deepest = 12

/**
 * Control nodes of a sound card and the jack "keyboards" of HDMI audio are held open by every desktop session, and
 * unplugging a USB headset shows that it does not matter.
 */
const harmless = /^(?:snd\/control|input\/)/

/** Every node of a function, from the `DEVNAME` of what hangs below it in sysfs. Opens nothing that wakes the device. */
export function deviceNodesOf(sysfsRoot: string, functionPath: string): readonly DeviceNode[] {
  const nodes: DeviceNode[] = []
  const walk = (directory: string, depth: number): void => {
    const entries = list(directory)
    if (depth > 0 && entries.some(({ name }) => name === 'uevent')) {
      const values = parseUevent(readQuietly(join(directory, 'uevent')))
      const name = values.get('DEVNAME')
      const [major, minor] = [values.get('MAJOR'), values.get('MINOR')]
      const number = major === undefined || minor === undefined ? undefined : `${major}:${minor}`
      if (name !== undefined) nodes.push({ path: `/dev/${name}`, number, harmless: harmless.test(name) })
    }
    if (depth === deepest) return
    for (const entry of entries) {
      // Symbolic links lead elsewhere, other PCI functions are asked for on their own.
      if (entry.isDirectory() && !pciAddressPattern.test(entry.name)) walk(join(directory, entry.name), depth + 1)
    }
  }
  walk(join(sysfsRoot, functionPath), 0)
  return nodes
}

function list(directory: string): ReturnType<typeof readEntries> {
  try {
    return readEntries(directory)
  } catch {
    return []
  }
}

function readEntries(directory: string) {
  return readdirSync(directory, { withFileTypes: true })
}
