import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { hasCode, readWhole } from './store-fs.ts'
import type { StoreFs } from './store-fs.ts'

/** Who holds a store. */
export interface LockOwner {
  readonly nonce: string
  readonly host: string
  readonly pid: number
  /** When the process began, as its system counts; tells it from a later one with the same pid. */
  readonly started: string | undefined
  /** The directory it was made in: a lock that came along with a copy of the directory is no lock. */
  readonly directory: string
}

/** A lock that no one has signed for so long was left behind by a crash right after it was made. */
const unsignedMs = 10_000

const mostLockBytes = 4_096

/** Locks of this process. */
const held = new Set<string>()

/** The right to write into a store's directory, for one store of one process at a time. */
export class StoreLock {
  readonly #fs: StoreFs
  readonly #path: string
  readonly #owner: LockOwner

  private constructor(fs: StoreFs, path: string, owner: LockOwner) {
    this.#fs = fs
    this.#path = path
    this.#owner = owner
  }

  /** Rejects with `EGPU_CHECKPOINT_FAILED` and who holds it. What a dead process left is taken over. */
  static async take(fs: StoreFs, directory: string): Promise<StoreLock> {
    const path = `${directory}/lock`
    const { id } = await fs.identify(directory)
    const nonce = randomBytes(16).toString('hex')
    const owner: LockOwner = { nonce, host: hostname(), pid: process.pid, started: startOf(process.pid), directory: id }
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await removeLeft(fs, directory)
      try {
        await sign(fs, path, owner)
        held.add(nonce)
        return new StoreLock(fs, path, owner)
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error
      }
      const other = await readOwner(fs, path)
      if (other === undefined) continue
      if (other !== 'unsigned' && isAlive(other, owner)) throw inUse(directory, other)
      if (other === 'unsigned' && Date.now() - (await fs.identify(path)).modifiedMs < unsignedMs) {
        throw inUse(directory, undefined)
      }
      await fs.rename(path, `${path}.${nonce}.left`)
    }
    throw inUse(directory, undefined)
  }

  /** Rejects with `EGPU_STALE_EPOCH` when somebody else took it: then nothing may be published any more. */
  async assertHeld(): Promise<void> {
    const owner = await readOwner(this.#fs, this.#path)
    if (owner !== undefined && owner !== 'unsigned' && owner.nonce === this.#owner.nonce) return
    throw new EGpuError(EGpuErrorCode.StaleEpoch, `${this.#path} is no longer ours: another process uses the store`)
  }

  async release(): Promise<void> {
    held.delete(this.#owner.nonce)
    const owner = await readOwner(this.#fs, this.#path).catch(() => undefined)
    if (owner !== undefined && owner !== 'unsigned' && owner.nonce === this.#owner.nonce)
      await this.#fs.remove(this.#path)
  }
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
  const bytes = await readWhole(fs, path, mostLockBytes)
  if (bytes === undefined) return undefined
  try {
    const owner = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<LockOwner> | null
    const { nonce, host, pid, started, directory } = owner ?? {}
    if (
      typeof nonce !== 'string' ||
      typeof host !== 'string' ||
      typeof pid !== 'number' ||
      typeof directory !== 'string'
    ) {
      return 'unsigned'
    }
    return { nonce, host, pid, started, directory }
  } catch {
    return 'unsigned'
  }
}

/** A process on another host cannot be asked, so it counts as alive. */
function isAlive(other: LockOwner, self: LockOwner): boolean {
  if (other.directory !== self.directory) return false
  if (other.host !== self.host) return true
  if (other.pid === self.pid) return held.has(other.nonce)
  try {
    process.kill(other.pid, 0)
  } catch (error) {
    return !hasCode(error, 'ESRCH')
  }
  return other.started === undefined || other.started === startOf(other.pid)
}

/** Field 22 of /proc/PID/stat (proc(5)); the name before it may hold blanks and parentheses. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

function inUse(directory: string, owner: LockOwner | undefined): EGpuError {
  if (owner !== undefined && held.has(owner.nonce)) {
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
