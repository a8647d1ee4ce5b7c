import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'

/** Text of a file. Without O_NONBLOCK, a FIFO in its place would block the process for ever. */
export function readText(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}

/** Text of a file; `undefined` when there is none or it may not be read. */
export function readQuietly(path: string): string | undefined {
  try {
    return readText(path)
  } catch {
    return undefined
  }
}

/** Names in a directory; none when it cannot be listed. */
export function listQuietly(path: string): readonly string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** Last part of what a symbolic link points at: the driver, the IOMMU group. */
export function linkedName(path: string): string | undefined {
  try {
    return basename(readlinkSync(path))
  } catch {
    return undefined
  }
}
