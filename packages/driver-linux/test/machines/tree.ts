import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Sysfs, Unreadable } from '../../src/sysfs/sysfs.ts'

/**
 * An attribute the kernel refuses to give out (EINVAL). A file cannot do that, so on disk it becomes a directory, whose
 * reading fails with EISDIR: the reader takes both for the same.
 */
export const unreadable: unique symbol = Symbol('unreadable')

/** One entry of a sysfs tree: an attribute's text, an attribute that cannot be read, or a symbolic link. */
export type Entry = string | typeof unreadable | { readonly to: string }

/** A sysfs tree as data: paths from its root, in no order. Directories are implied. */
export type Tree = ReadonlyMap<string, Entry>

/** Makes the tree real below `root`. */
export function writeTree(tree: Tree, root: string): void {
  const made = new Set<string>()
  const makeDirectory = (path: string): void => {
    if (!made.has(path)) mkdirSync(path, { recursive: true })
    made.add(path)
  }
  makeDirectory(root)
  for (const [path, entry] of tree) {
    const file = join(root, path)
    makeDirectory(dirname(file))
    if (entry === unreadable) makeDirectory(file)
    else if (typeof entry === 'string') writeFileSync(file, entry)
    else symlinkSync(entry.to, file)
  }
}

/** The same tree as a reader, without a disk: for fuzzing, and for counting what is opened. */
export function memorySysfs(tree: Tree, onOpen: (path: string, real: string | undefined) => void = () => {}): Sysfs {
  const children = new Map<string, Set<string>>()
  for (const path of tree.keys()) {
    const segments = path.split('/')
    for (let length = 1; length <= segments.length; length += 1) {
      const parent = segments.slice(0, length - 1).join('/')
      let names = children.get(parent)
      if (names === undefined) children.set(parent, (names = new Set()))
      names.add(segments[length - 1] as string)
    }
  }
  const resolve = (path: string): string | undefined => {
    let done: string[] = []
    const open = path.split('/').filter((segment) => segment !== '')
    for (let follows = 0; open.length > 0;) {
      const segment = open.shift() as string
      if (segment === '..') done.pop()
      else if (segment !== '.') {
        const entry = tree.get([...done, segment].join('/'))
        if (typeof entry === 'object') {
          if ((follows += 1) > 40) return undefined
          const target = entry.to.split('/').filter((part) => part !== '')
          if (entry.to.startsWith('/')) done = []
          open.unshift(...target)
        } else done.push(segment)
      }
    }
    return done.join('/')
  }
  const read = (directory: string, attribute: string): string | Unreadable => {
    const path = resolve(`${directory}/${attribute}`)
    onOpen(`${directory}/${attribute}`, path)
    if (path === undefined) return { error: 'ELOOP' }
    const entry = tree.get(path)
    if (typeof entry === 'string') return entry.slice(0, 4096).trimEnd()
    return { error: entry === unreadable ? 'EINVAL' : children.has(path) ? 'EISDIR' : 'ENOENT' }
  }
  return {
    read,
    list(directory) {
      const path = resolve(directory)
      return path === undefined ? [] : [...(children.get(path) ?? [])].sort()
    },
    link(path) {
      const cut = path.lastIndexOf('/')
      const parent = resolve(path.slice(0, Math.max(cut, 0)))
      const entry = parent === undefined ? undefined : tree.get(`${parent}/${path.slice(cut + 1)}`)
      return typeof entry === 'object' ? entry.to : undefined
    },
  }
}
