import { readdirSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { DeviceHolder } from '@egpu/core'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import type { DeviceNode } from './device-nodes.ts'
import { drmMastersOf } from './drm-masters.ts'

export interface HolderScan {
  readonly holders: readonly DeviceHolder[]
  /** Processes whose open files could not be seen, because they belong to somebody else. */
  readonly hidden: number
}

/**
 * Who has one of these nodes open or mapped, from `/proc/<pid>/fd` and `/proc/<pid>/maps`. Touches no device: links are
 * read, and where a name does not match, the device number of what is open. Root also learns who drives a card's screens.
 */
export function findHolders(
  { sysfsRoot, procRoot }: { readonly sysfsRoot: string; readonly procRoot: string },
  nodes: readonly DeviceNode[],
  passwdPath: string = '/etc/passwd',
): HolderScan {
  const masters = new Map(nodes.map(({ path }) => [path, drmMastersOf(sysfsRoot, path)]))
  const byPath = new Map(nodes.map((node) => [node.path, node]))
  const byNumber = new Map(nodes.flatMap((node) => (node.number === undefined ? [] : [[node.number, node] as const])))
  const users = readUsers(passwdPath)
  const holders: DeviceHolder[] = []
  let hidden = 0
  for (const pid of listQuietly(procRoot).filter((name) => /^\d+$/.test(name))) {
    const process = join(procRoot, pid)
    const held = new Set<DeviceNode>()
    const open = openFiles(process)
    if (open === 'hidden') hidden++
    else for (const file of open) add(held, byPath.get(file.target) ?? byNumber.get(numberOf(file) ?? ''))
    for (const target of mappedFiles(process)) add(held, byPath.get(target))
    for (const { path } of [...held].sort((a, b) => a.path.localeCompare(b.path, 'en'))) {
      const name = readQuietly(join(process, 'comm'))?.trim()
      const uid = /^Uid:\s+(\d+)/m.exec(readQuietly(join(process, 'status')) ?? '')?.[1]
      const user = uid === undefined ? undefined : (users.get(uid) ?? uid)
      const isMaster = masters.get(path)?.has(Number(pid)) === true
      holders.push({ pid: Number(pid), name, user, holds: isMaster ? `${path} (DRM master)` : path })
    }
  }
  return { holders: holders.sort((a, b) => a.pid - b.pid), hidden }
}

/** File systems on these nodes that are mounted: `/dev/sda1 on /mnt`. */
export function findMounts(procRoot: string, nodes: readonly DeviceNode[]): readonly string[] {
  const numbers = new Map(nodes.flatMap(({ number, path }) => (number === undefined ? [] : [[number, path] as const])))
  return (readQuietly(join(procRoot, 'self/mountinfo')) ?? '').split('\n').flatMap((line) => {
    const [, , number = '', , at = ''] = line.split(' ')
    const path = numbers.get(number)
    return path === undefined ? [] : [`${path} on ${at}`]
  })
}

interface OpenFile {
  readonly link: string
  readonly target: string
}

function openFiles(process: string): readonly OpenFile[] | 'hidden' {
  const directory = join(process, 'fd')
  let names: readonly string[]
  try {
    names = readdirSync(directory)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? 'hidden' : []
  }
  return names.flatMap((name) => {
    const link = join(directory, name)
    try {
      return [{ link, target: readlinkSync(link) }]
    } catch {
      return [] // closed meanwhile
    }
  })
}

/** `major:minor` of an open device file. In a container or chroot its path is another than ours. */
function numberOf({ link, target }: OpenFile): string | undefined {
  if (!target.startsWith('/') || target.startsWith('/proc/')) return undefined
  try {
    const file = statSync(link)
    if (!file.isCharacterDevice() && !file.isBlockDevice()) return undefined
    // glibc's makedev: 12 bits of major at bit 8, 20 bits of minor around them.
    const major = (file.rdev >> 8) & 0xfff
    const minor = (file.rdev & 0xff) | ((file.rdev >> 12) & 0xfff00)
    return `${major}:${minor}`
  } catch {
    return undefined
  }
}

/** A mapping keeps a device in use after its file was closed. */
function mappedFiles(process: string): ReadonlySet<string> {
  const maps = readQuietly(join(process, 'maps')) ?? ''
  return new Set([...maps.matchAll(/ (\/dev\/\S+)$/gm)].map(([, path]) => path ?? ''))
}

function add<T>(set: Set<T>, item: T | undefined): void {
  if (item !== undefined) set.add(item)
}

function readUsers(path: string): ReadonlyMap<string, string> {
  const users = new Map<string, string>()
  for (const line of (readQuietly(path) ?? '').split('\n')) {
    const [name, , uid] = line.split(':')
    if (name !== undefined && uid !== undefined && !users.has(uid)) users.set(uid, name)
  }
  return users
}
