import { existsSync, mkdirSync } from 'node:fs'
import { access, mkdir } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/**
 * Makes a directory and those above it that are missing. `mkdir` with `recursive` of Node 20 and 24 never comes back where
 * the system says ENOENT although the parent is there, as everywhere below /proc, and on a read-only file system it says
 * ENOENT too; this one rejects with what the system says.
 */
export async function makeDirectory(path: string, mode: number = 0o777): Promise<void> {
  const missing: string[] = []
  for (let at = resolve(path); at !== dirname(at) && !(await isThere(at)); at = dirname(at)) missing.unshift(at)
  for (const each of missing) await mkdir(each, mode).catch(unlessMade)
}

/** `makeDirectory` for where nothing may happen in between. */
export function makeDirectorySync(path: string, mode: number = 0o777): void {
  const missing: string[] = []
  for (let at = resolve(path); at !== dirname(at) && !existsSync(at); at = dirname(at)) missing.unshift(at)
  for (const each of missing) {
    try {
      mkdirSync(each, mode)
    } catch (error) {
      unlessMade(error)
    }
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** Another process may be making the same one. */
function unlessMade(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
}
