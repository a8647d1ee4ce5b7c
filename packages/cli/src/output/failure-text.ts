import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { EGpuError } from '@egpu/core'
import { CommandErrorCode } from '../command-error.ts'

/** What the operating system's own codes mean to a person, with what it was about. */
const systemFailures: Readonly<Record<string, (path: string) => string>> = {
  ENOENT: (path) =>
    `there is no ${existsSync(dirname(path)) ? path : `directory ${dirname(path)}`}; check the spelling`,
  ENOTDIR: (path) => `${path}, or a part of it, is a file where a directory should be`,
  EISDIR: (path) => `${path} is a directory; name a file`,
  EEXIST: (path) => `${path} is there already and is not written over; choose another name or remove it`,
  EACCES: (path) => `this user may not use ${path}; choose another place, or run it as a user who may`,
  EPERM: (path) => `this user may not do that to ${path}; run it as a user who may`,
  EROFS: (path) => `${path} is on a file system that cannot be written to; choose another place`,
  ENOSPC: (path) => `there is no room left for ${path}; free some, or choose another place`,
  ELOOP: (path) => `${path} is a symbolic link that leads back to itself`,
  ENAMETOOLONG: (path) => `the name ${path.slice(0, 40)}… is too long`,
}

/** Why it did not work, for a person. The code goes behind the first line, so that a list below it stays a list. */
export function failureText(error: unknown): string {
  const [first, ...rest] = messageOf(error).split('\n')
  return EGpuError.is(error) ? [`${first} [${error.code}]`, ...rest].join('\n') : [first, ...rest].join('\n')
}

/** One line for the program that asked for JSON. */
export function failureJson(error: unknown): string {
  return JSON.stringify({ error: { code: codeOf(error), message: messageOf(error) } })
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error) || EGpuError.is(error)) return error instanceof Error ? error.message : String(error)
  const { code = '', path, dest, syscall } = error as NodeJS.ErrnoException & { readonly dest?: string }
  const where = dest ?? path
  // As below /proc: the place is wrong, not the spelling.
  if (code === 'ENOENT' && syscall === 'mkdir') return `no directory ${where} can be made; choose another place`
  return where === undefined ? error.message : (systemFailures[code]?.(where) ?? error.message)
}

/** Ours, else the operating system's. */
function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : CommandErrorCode.Unexpected
}
