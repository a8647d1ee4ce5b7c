import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { threadId } from 'node:worker_threads'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { hasCode, readWhole } from './store-fs.ts'
import type { StoreFs } from './store-fs.ts'

/** Who holds a store. */
export interface LockOwner {
  readonly nonce: string
  readonly host: string
  readonly pid: number
  /** As Node counts them; 0 is the main one. */
  readonly thread: number | undefined
  /** The thread's number in its system, where that tells. */
  readonly task: number | undefined
  /** When the thread began, as its system counts; tells it from a later one with the same number. */
  readonly started: string | undefined
  /** The directory it was made in: a lock that came along with a copy of the directory is no lock. */
  readonly directory: string
}

/** A lock that no one has signed for so long was left behind by a crash right after it was made. */
const unsignedMs = 10_000

const mostLockBytes = 4_096

/** Locks of this thread, also those of another copy of this package. */
const held: Set<string> = ((globalThis as Record<symbol, unknown>)[Symbol.for('@egpu/migrator/locks')] ??=
  new Set()) as Set<string>

/** The right to write into a store's directory, for one store of one thread at a time. */
export class StoreLock {
  readonly #fs: StoreFs
  readonly #directory: string
  readonly #owner: LockOwner
  #taking: Promise<void> | undefined

  private constructor(fs: StoreFs, directory: string, owner: LockOwner) {
    this.#fs = fs
    this.#directory = directory
    this.#owner = owner
  }

  /** Rejects with `EGPU_CHECKPOINT_FAILED` and who holds it. What a dead process left is taken over. */
  static async take(fs: StoreFs, directory: string): Promise<StoreLock> {
    const { id } = await fs.identify(directory)
    const lock = new StoreLock(fs, directory, {
      nonce: randomBytes(16).toString('hex'),
      ...thisThread(),
      directory: id,
    })
    await lock.#take()
    held.add(lock.#owner.nonce)
    return lock
  }

  /**
   * Rejects with `EGPU_STALE_EPOCH` when somebody else took it: then nothing may be published any more. One that was
   * removed or emptied is made again; whoever had it in between has raised the tokens of what was written then.
   */
  async assertHeld(): Promise<void> {
    await this.assertPlace()
    if (await this.#isOurs()) return
    try {
      // Several may miss it at a time.
      this.#taking ??= this.#take().finally(() => (this.#taking = undefined))
      await this.#taking
    } catch (cause) {
      if (!EGpuError.is(cause)) throw cause
      throw new EGpuError(EGpuErrorCode.StaleEpoch, `this store has lost its directory: ${cause.message}`, { cause })
    }
  }

  /** Rejects with `EGPU_CHECKPOINT_FAILED` where another directory has the name now: nothing may be believed to be gone. */
  async assertPlace(): Promise<void> {
    const { id } = await this.#fs.identify(this.#directory)
    if (id === this.#owner.directory) return
    const message = `${this.#directory} is another directory than it was; was it replaced, or its disk unmounted?`
    throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
  }

  async release(): Promise<void> {
    held.delete(this.#owner.nonce)
    if (await this.#isOurs().catch(() => false)) await this.#fs.remove(this.#path)
  }

  get #path(): string {
    return `${this.#directory}/lock`
  }

  async #isOurs(): Promise<boolean> {
    const owner = await readOwner(this.#fs, this.#path)
    return owner !== undefined && owner !== 'unsigned' && owner.nonce === this.#owner.nonce
  }

  async #take(): Promise<void> {
    const fs = this.#fs
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await removeLeft(fs, this.#directory)
      try {
        await sign(fs, this.#path, this.#owner)
        return
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error
      }
      const other = await readOwner(fs, this.#path)
      if (other === undefined) continue
      if (other !== 'unsigned' && other.nonce === this.#owner.nonce) return
      if (other !== 'unsigned' && isAlive(other, this.#owner)) throw inUse(this.#directory, other)
      if (other === 'unsigned' && (await isYoung(fs, this.#path))) throw inUse(this.#directory, undefined)
      await fs.rename(this.#path, `${this.#path}.${randomBytes(16).toString('hex')}.left`)
    }
    throw inUse(this.#directory, undefined)
  }
}

/** A clock that was put back makes a file of the future, which would stay young for years. */
async function isYoung(fs: StoreFs, path: string): Promise<boolean> {
  return Math.abs(Date.now() - (await fs.identify(path)).modifiedMs) < unsignedMs
}

/** Locks that were taken over, also by one that died right after. */
async function removeLeft(fs: StoreFs, directory: string): Promise<void> {
  const names = (await fs.list(directory)).map(({ name }) => name)
  for (const name of names.filter((each) => /^lock\..*\.left$/.test(each))) await fs.remove(`${directory}/${name}`)
}

/** Not synced: after a power failure nobody holds it any more. */
async function sign(fs: StoreFs, path: string, owner: LockOwner): Promise<void> {
  const file = await fs.open(path, 'create')
  try {
    await file.write(Buffer.from(JSON.stringify(owner)), 0)
  } finally {
    await file.close()
  }
}

async function readOwner(fs: StoreFs, path: string): Promise<LockOwner | 'unsigned' | undefined> {
  try {
    const bytes = await readWhole(fs, path, mostLockBytes)
    if (bytes === undefined) return undefined
    const owner = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<LockOwner> | null
    const { nonce, host, pid, thread, task, started, directory } = owner ?? {}
    const isSigned =
      typeof nonce === 'string' && typeof host === 'string' && isNumber(pid) && typeof directory === 'string'
    if (!isSigned) return 'unsigned'
    // It becomes a part of a path.
    return { nonce, host, pid, thread, task: isNumber(task) ? task : undefined, started, directory }
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return 'unsigned'
    if (!EGpuError.is(error)) throw error
    const message = `${path} is no file, so the store cannot be locked; remove it`
    throw new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause: error })
  }
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}

/** A process on another host cannot be asked, so it counts as alive. */
function isAlive(other: LockOwner, self: LockOwner): boolean {
  const isHere = other.host === self.host
  if (!isSameDirectory(other.directory, self.directory, isHere)) return false
  if (!isHere) return true
  if (other.pid === self.pid && other.thread === self.thread) return held.has(other.nonce)
  try {
    process.kill(other.pid, 0)
  } catch (error) {
    return !hasCode(error, 'ESRCH')
  }
  return other.started === undefined || other.started === startOf(other.pid, other.task ?? other.pid)
}

/** Each host has its own number for a network's file system, but the file system has one for the directory. */
function isSameDirectory(one: string, other: string, isHere: boolean): boolean {
  const withinFileSystem = (id: string): string => id.slice(id.lastIndexOf(':') + 1)
  return isHere ? one === other : withinFileSystem(one) === withinFileSystem(other)
}

function thisThread(): Omit<LockOwner, 'nonce' | 'directory'> {
  const task = taskOf()
  const started = startOf(process.pid, task ?? process.pid)
  return { host: hostname(), pid: process.pid, thread: threadId, task, started }
}

/** Linux alone tells (proc(5)): `PID/task/TID`. */
function taskOf(): number | undefined {
  try {
    return Number(/\/task\/(\d+)$/.exec(readlinkSync('/proc/thread-self'))?.[1] ?? NaN) || undefined
  } catch {
    return undefined
  }
}

/** Field 22 of /proc/PID/task/TID/stat (proc(5)); the name before it may hold blanks and parentheses. */
function startOf(pid: number, task: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/task/${task}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

function inUse(directory: string, owner: LockOwner | undefined): EGpuError {
  if (owner !== undefined && owner.pid === process.pid && owner.host === hostname()) {
    return new EGpuError(
      EGpuErrorCode.CheckpointFailed,
      `another store of this process uses ${directory}; close that one first, or give this one a directory of its own`,
    )
  }
  const who = owner === undefined ? 'somebody' : `process ${owner.pid} on ${owner.host}`
  return new EGpuError(
    EGpuErrorCode.CheckpointFailed,
    `${who} uses the checkpoint store ${directory}; give each migrator a directory of its own, ` +
      `or remove ${directory}/lock if you are certain that nobody does`,
  )
}
