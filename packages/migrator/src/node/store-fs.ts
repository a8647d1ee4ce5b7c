import { constants } from 'node:fs'
import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { makeDirectory } from './make-directory.ts'

/** One open file. */
export interface StoreFile {
  /** Optional: what this process knows it by, for threads that read it themselves. */
  readonly fd?: number | undefined
  /** Reads into `into`; resolves with the count, which is short only at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>
  /** Writes all of `bytes`. */
  write(bytes: Uint8Array, position: number): Promise<void>
  /** Resolves once everything written is on the disk. */
  sync(): Promise<void>
  /** Optional: as `sync`, for the bytes alone. Called in between, so that the disk works while more is on its way. */
  flush?(): Promise<void>
  size(): Promise<number>
  close(): Promise<void>
}

export interface StoreEntry {
  readonly name: string
  /** `other` is everything a store never makes: symbolic links above all. */
  readonly kind: 'file' | 'directory' | 'other'
}

/** The file system as a directory store uses it. Errors carry `code` as Node's do. */
export interface StoreFs {
  /**
   * `create` fails with `EEXIST` where something is there already; neither follows a symbolic link at the end. `read` must
   * not wait for anything: of what is no file, such as a pipe, it rejects with `EGPU_CHECKPOINT_CORRUPT`.
   */
  open(path: string, mode: 'read' | 'create'): Promise<StoreFile>
  /** Fails with `ENOENT` where there is no such directory. */
  list(directory: string): Promise<readonly StoreEntry[]>
  /** Parents too; fine when it is there. */
  makeDirectory(path: string): Promise<void>
  /** Replaces the target in one step. */
  rename(from: string, to: string): Promise<void>
  /** A file, or a directory and all that is in it. Fine when it is not there. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals within it last. */
  syncDirectory(path: string): Promise<void>
  /** What tells this directory from a copy of it, and when it was last changed. */
  identify(path: string): Promise<{ readonly id: string; readonly modifiedMs: number }>
}

/** Node's own file system. */
export const nodeFs: StoreFs = {
  async open(path, mode) {
    const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants
    // Windows has neither these flags nor, without a privilege, the links.
    const noFollow = constants.O_NOFOLLOW ?? 0
    // The opening of a pipe would wait for somebody who writes into it.
    const noWait = constants.O_NONBLOCK ?? 0
    const flags = mode === 'read' ? O_RDONLY | noFollow | noWait : O_WRONLY | O_CREAT | O_EXCL | noFollow
    const handle = await open(path, flags, 0o600)
    if (mode === 'read') await assertFile(handle, path)
    return {
      fd: handle.fd,
      async read(into, position) {
        let done = 0
        while (done < into.byteLength) {
          const { bytesRead } = await handle.read(into, done, into.byteLength - done, position + done)
          if (bytesRead === 0) break
          done += bytesRead
        }
        return done
      },
      async write(bytes, position) {
        let done = 0
        while (done < bytes.byteLength) {
          const { bytesWritten } = await handle.write(bytes, done, bytes.byteLength - done, position + done)
          done += bytesWritten
        }
      },
      sync: () => handle.sync(),
      flush: () => handle.datasync(),
      size: async () => (await handle.stat()).size,
      close: () => handle.close(),
    }
  },
  async list(directory) {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.map((entry) => ({
      name: entry.name,
      kind: entry.isFile() ? 'file' : entry.isDirectory() ? 'directory' : 'other',
    }))
  },
  makeDirectory: (path) => makeDirectory(path, 0o700),
  rename: (from, to) => rename(from, to),
  remove: (path) => rm(path, { recursive: true, force: true }),
  async syncDirectory(path) {
    // A directory cannot be opened on Windows; NTFS journals its own metadata.
    if (process.platform === 'win32') return
    const handle = await open(path, constants.O_RDONLY)
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
  async identify(path) {
    // Of where a link leads: a store that is reached by two ways is one.
    const { dev, ino, mtimeMs } = await stat(path)
    return { id: `${dev}:${ino}`, modifiedMs: mtimeMs }
  },
}

async function assertFile(handle: FileHandle, path: string): Promise<void> {
  const found = await handle.stat().catch(() => undefined)
  if (found?.isFile() === true) return
  await handle.close()
  const message = `this checkpoint cannot be used: ${path} is no file but a directory, a pipe or a device`
  throw new EGpuError(EGpuErrorCode.CheckpointCorrupt, message)
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** All of a small file. `undefined` where there is none. */
export async function readWhole(fs: StoreFs, path: string, mostBytes: number): Promise<Uint8Array | undefined> {
  let file: StoreFile
  try {
    file = await fs.open(path, 'read')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
  try {
    const size = await file.size()
    if (size > mostBytes) throw new RangeError(`${path} has ${size} bytes, more than the ${mostBytes} it may have`)
    const bytes = new Uint8Array(size)
    return bytes.subarray(0, await file.read(bytes, 0))
  } finally {
    await file.close()
  }
}

/** Writes a small file so that after a crash it is there whole, or the one before it is. */
export async function replaceFile(fs: StoreFs, path: string, bytes: Uint8Array, suffix: string): Promise<void> {
  const temporary = `${path}.${suffix}.tmp`
  try {
    await writeNew(fs, temporary, bytes)
    await fs.rename(temporary, path)
  } catch (error) {
    await fs.remove(temporary).catch(() => undefined)
    throw error
  }
  await fs.syncDirectory(path.slice(0, path.lastIndexOf('/')))
}

/** Creates a file with these bytes and waits until they are on the disk. */
export async function writeNew(fs: StoreFs, path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.open(path, 'create')
  try {
    await file.write(bytes, 0)
    await file.sync()
  } finally {
    await file.close()
  }
}
