import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'

/**
 * For the process's user alone, and gone after a reboot, as the processes are. As the XDG base directory specification
 * has it, a path that is not absolute counts as none.
 */
export function defaultStateDirectory(given: string = process.env['XDG_RUNTIME_DIR'] ?? ''): string {
  const uid = process.getuid?.()
  if (uid === 0) return '/run/egpu/cuda'
  if (isAbsolute(given)) return join(given, 'egpu', 'cuda')
  // Where a login has it: `su`, cron and services leave the variable out, and have to find what a login noted.
  const login = `/run/user/${uid}`
  return existsSync(login) ? join(login, 'egpu', 'cuda') : join(tmpdir(), `egpu-cuda-${uid}`)
}

/** Makes it where it is missing. Others must not be able to make us act on what they wrote. */
export function prepareStateDirectory(directory: string): void {
  makeDirectory(directory)
  const { uid, mode } = lstatSync(directory)
  if (uid === process.getuid?.() && (mode & 0o022) === 0) return
  throw new EGpuError(
    EGpuErrorCode.PermissionDenied,
    `${directory} has to belong to this user and be writable by nobody else; remove it, or name another stateDirectory`,
  )
}

/** `mkdirSync` with `recursive` of Node 20 and 24 never comes back from below /proc, where the system says ENOENT. */
function makeDirectory(path: string): void {
  const missing: string[] = []
  for (let at = resolve(path); at !== dirname(at) && !existsSync(at); at = dirname(at)) missing.unshift(at)
  for (const each of missing) {
    try {
      mkdirSync(each, 0o700)
    } catch (error) {
      // Another process may be making it too.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}
