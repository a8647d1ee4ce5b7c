import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assertKind, text } from '../arguments.ts'
import { listDirectory } from '../links/sysfs-text.ts'

/** What the operating system does with the interfaces besides the mesh. */
export interface HostNetwork {
  /** Interfaces that a default route leaves by. */
  readonly defaultRoutes: readonly string[]
  readonly bridges: readonly { readonly name: string; readonly members: readonly string[] }[]
}

/** From `/proc/net` and sysfs. What cannot be read counts as none. */
export function linuxHostNetwork(sysfsRoot: string = '/sys', procRoot: string = '/proc'): HostNetwork {
  assertKind('sysfsRoot', sysfsRoot, text)
  assertKind('procRoot', procRoot, text)
  const net = join(sysfsRoot, 'class/net')
  const bridges = listDirectory(net)
    .map((name) => ({ name, members: listDirectory(join(net, name, 'brif')) }))
    .filter(({ members }) => members.length > 0)
  return { defaultRoutes: [...new Set([...defaults4(procRoot), ...defaults6(procRoot)])], bridges }
}

/** `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, numbers in hex. */
function defaults4(procRoot: string): readonly string[] {
  return rows(join(procRoot, 'net/route')).flatMap(([name, destination, , , , , , mask]) =>
    name !== undefined && destination === '00000000' && mask === '00000000' ? [name] : [],
  )
}

/** `destination prefix source prefix hop metric refs use flags name`. Unreachable routes stand on `lo`. */
function defaults6(procRoot: string): readonly string[] {
  return rows(join(procRoot, 'net/ipv6_route')).flatMap(([destination, prefix, , , , , , , , name]) =>
    name !== undefined && name !== 'lo' && /^0{32}$/.test(destination ?? '') && prefix === '00' ? [name] : [],
  )
}

function rows(path: string): readonly string[][] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
  } catch {
    return []
  }
}
