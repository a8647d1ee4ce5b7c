import { lstat, readlink, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { hasCode } from './store-fs.ts'

/** Longer paths are cut in the middle: people read the two ends. */
const mostPathShown = 200

/**
 * A directory of the user's, by what it is for. What the operating system says when it cannot be used becomes
 * `EGPU_CHECKPOINT_FAILED` here and nowhere else: what is wrong with which path, what to do, and the system's own error as
 * the cause.
 */
export class Place {
  readonly path: string
  readonly #purpose: string

  /** `TypeError` for what cannot be a path. */
  constructor(purpose: string, path: string) {
    if (typeof path !== 'string' || path === '' || path.includes('\0')) {
      const found = typeof path === 'string' ? JSON.stringify(path) : typeof path
      throw new TypeError(`${purpose} needs the path of a directory, not ${found}`)
    }
    // Named now: a later change of the working directory is not meant to move it.
    this.path = resolve(path).replaceAll('\\', '/')
    this.#purpose = purpose
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw await this.#explained(error)
    }
  }

  async *read<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* items
    } catch (error) {
      throw await this.#explained(error)
    }
  }

  /** Leaves alone what is no error of the operating system. */
  async #explained(error: unknown): Promise<unknown> {
    const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
    if (code === undefined || !/^E[A-Z\d]+$/.test(code)) return error
    const reason = await reasonOf(code, error as NodeJS.ErrnoException, this.path)
    const message = `${this.#purpose} ${shown(this.path)} cannot be used: ${reason} (${code})`
    return new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause: error })
  }
}

/** What a code means where the path alone does not tell. */
const meanings: Readonly<Record<string, (path: string) => string>> = {
  EACCES: forbidden,
  EPERM: forbidden,
  EROFS: (path) => `${path} is on a file system that is read-only; mount it for writing, or name another place`,
  ENOSPC: () => 'its disk is full; make room there',
  EDQUOT: () => "this user's quota there is used up; make room",
  EFBIG: () => 'a file may not become so large there; see `ulimit -f` and the limits of the file system',
  EIO: (path) => `the disk failed at ${path}; look at the kernel's log and check it`,
  EMFILE: () => 'this process has too many files open; raise its limit (`ulimit -n`)',
  ENFILE: () => 'the system has too many files open',
  ENAMETOOLONG: () => 'the path is longer than its file system takes; name a shorter one',
  ESTALE: (path) => `the server of ${path} no longer knows it; mount it anew`,
  ENOENT: (path) => `${path} is not there and cannot be made; was it removed, or its disk unmounted?`,
  ENOTDIR: (path) => `a part of ${path} is no directory`,
  ELOOP: (path) => `a part of ${path} is a symbolic link that leads nowhere`,
}

async function reasonOf(code: string, error: NodeJS.ErrnoException, place: string): Promise<string> {
  const path = error.path ?? place
  // Only of the real file system, which is the one whose errors have a number.
  const obstacle = error.errno === undefined ? undefined : await obstacleOn(path, code)
  return obstacle ?? meanings[code]?.(shown(path)) ?? error.message
}

function forbidden(path: string): string {
  const user = process.geteuid === undefined ? 'this user' : `the user with the number ${process.geteuid()}`
  return `${user} may not use ${path}; give that user the right to read and write it, or name another place`
}

/** What on the way to a path is no directory and leads to none. */
async function obstacleOn(path: string, code: string): Promise<string | undefined> {
  for (const step of stepsTo(path)) {
    const found = await lstat(step).catch(() => undefined)
    if (found === undefined) return undefined
    const end = await stat(step).catch((error: unknown) => error as Error)
    if (hasCode(end, 'ELOOP')) return `${shown(step)} is a symbolic link that leads back to itself; remove it`
    if (hasCode(end, 'ENOENT')) {
      const target = shown(await readlink(step).catch(() => 'a place'))
      return `${shown(step)} is a symbolic link to ${target}, which is not there; make that directory or remove the link`
    }
    if (end instanceof Error) return undefined
    if (code === 'ELOOP' && found.isSymbolicLink() && step === path) {
      return `${shown(step)} is a symbolic link, which is not followed here; remove it`
    }
    if (code === 'ENOTDIR' && !end.isDirectory()) {
      return `${shown(step)} is a file and no directory; move it away, or name another place`
    }
  }
  return undefined
}

/** Each directory above a path, and the path, from the root on. */
function stepsTo(path: string): readonly string[] {
  const steps: string[] = []
  for (let at = resolve(path); ; at = dirname(at)) {
    steps.unshift(at)
    if (at === dirname(at)) return steps
  }
}

function shown(path: string): string {
  if (path.length <= mostPathShown) return path
  return `${path.slice(0, mostPathShown / 2)}…${path.slice(-mostPathShown / 2)}`
}
