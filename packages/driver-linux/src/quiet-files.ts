import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'

/** Text of a file; `undefined` when there is none or it may not be read. */
export function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
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
