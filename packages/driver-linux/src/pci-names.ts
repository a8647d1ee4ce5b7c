import { readFileSync } from 'node:fs'
import { parseName } from './sysfs/parse.ts'

/** Marketing name of a PCI device, where a list of names has it. */
export type PciNames = (vendorId: number, deviceId: number) => string | undefined

/** Where distributions keep `pci.ids` (https://pci-ids.ucw.cz): Fedora and Arch, Debian, Alpine. */
const usualPaths: readonly string[] = ['/usr/share/hwdata/pci.ids', '/usr/share/misc/pci.ids', '/usr/share/pci.ids']

/** Names from the first list that is there, read when the first name is asked for. No list means no names. */
export function pciNames(paths: readonly string[] = usualPaths): PciNames {
  let text: string | undefined
  return (vendorId, deviceId) => findName((text ??= readFirst(paths)), vendorId, deviceId)
}

function readFirst(paths: readonly string[]): string {
  for (const path of paths) {
    try {
      return `\n${readFileSync(path, 'utf8')}`
    } catch {
      continue
    }
  }
  return ''
}

/**
 * Vendors start a line with their four digits, their devices follow with a tab, subsystems with two. The name in brackets
 * is the one on the box: `GB202 [GeForce RTX 5090]`.
 */
function findName(text: string, vendorId: number, deviceId: number): string | undefined {
  const vendor = text.indexOf(`\n${hex(vendorId)}  `)
  if (vendor < 0) return undefined
  const device = text.indexOf(`\n\t${hex(deviceId)}  `, vendor)
  if (device < 0 || /\n[\da-f]{4} {2}/.test(text.slice(vendor + 1, device))) return undefined
  const line = /.*/.exec(text.slice(device + 8, device + 264))?.[0] ?? ''
  return parseName(/\[([^\]]+)\]/.exec(line)?.[1] ?? line)
}

function hex(id: number): string {
  return id.toString(16).padStart(4, '0')
}
