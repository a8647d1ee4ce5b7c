import { closeSync, constants, openSync, readdirSync, readlinkSync, readSync } from 'node:fs'
import type { Attribute } from './attributes.ts'

/** Why an attribute could not be read: `ENOENT`, `EINVAL` (a lost device), `EACCES`, … */
export interface Unreadable {
  readonly error: string
}

/**
 * The kernel's view of the machine below some directory: the real `/sys`, or a tree recorded from another machine.
 * Nothing here throws for what the tree holds; entries may vanish between two calls.
 */
export interface Sysfs {
  /** Text of an attribute without the line end. `directory` is relative to the root, without a leading slash. */
  read(directory: string, attribute: Attribute): string | Unreadable
  /** Names in a directory; empty when there is none. */
  list(directory: string): readonly string[]
  /** Where a symbolic link points, as written in it. */
  link(path: string): string | undefined
}

/** `show()` of an attribute fills one page at most; anything longer is not an attribute. */
const pageSize = 4096

/**
 * Reads below `root`, synchronously: sysfs answers from memory, and a promise per attribute costs several times the
 * read itself (docs/decisions/0050-synchronous-sysfs-reads.md).
 */
export function openSysfs(root: string): Sysfs {
  const buffer = Buffer.alloc(pageSize)
  // Without O_NONBLOCK a FIFO in a hostile tree would block the process for ever.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
  return {
    read(directory, attribute) {
      let file: number | undefined
      try {
        file = openSync(`${root}/${directory}/${attribute}`, flags)
        return buffer.toString('utf8', 0, readSync(file, buffer, 0, pageSize, null)).trimEnd()
      } catch (error) {
        return { error: codeOf(error) }
      } finally {
        if (file !== undefined) closeSync(file)
      }
    },
    list(directory) {
      try {
        return readdirSync(`${root}/${directory}`).sort()
      } catch {
        return []
      }
    },
    link(path) {
      try {
        return readlinkSync(`${root}/${path}`)
      } catch {
        return undefined
      }
    },
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error)
}

/** The text, or `undefined` where it does not matter why there is none. */
export function textOf(reading: string | Unreadable): string | undefined {
  return typeof reading === 'string' && reading !== '' ? reading : undefined
}
