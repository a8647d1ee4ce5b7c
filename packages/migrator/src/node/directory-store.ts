import { resolve } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore, DamagedCheckpoint } from '../checkpoint/store.ts'
import { mostChunkBytes } from './manifest.ts'
import { nodeFs } from './store-fs.ts'
import type { StoreFs } from './store-fs.ts'
import { StoreLock } from './store-lock.ts'
import { directoryNameOf, workloadIdOf } from './workload-name.ts'
import { WorkloadDirectory } from './workload-directory.ts'

export interface DirectoryStoreOptions {
  /** Bytes per chunk, the unit that is compared, shared between checkpoints and checked. Default 1 MiB. */
  readonly chunkBytes?: number | undefined
  /**
   * Compresses chunks with zstd at this level, from 1 (fast) to 19 (small), where that makes them smaller. By default
   * nothing is compressed: it is worth it only where the disk is slower than zstd. Needs Node 22.15 or the package
   * `@hpcc-js/wasm-zstd`; so does reading what was compressed.
   */
  readonly zstdLevel?: number | undefined
  /** The file system; Node's by default. */
  readonly fs?: StoreFs | undefined
}

/** Checkpoints in a directory: they outlive the process and the machine's power. */
export interface DirectoryStore extends CheckpointStore {
  readonly directory: string
  damaged(workloadId: string): Promise<readonly DamagedCheckpoint[]>
  /** Reads all of a checkpoint and checks every SHA-256. Rejects with `EGPU_CHECKPOINT_CORRUPT`. */
  verify(workloadId: string, generation: number): Promise<void>
}

/**
 * A store in a directory of its own, which is made when it is first used and belongs to one store at a time. Its first
 * call rejects with `EGPU_CHECKPOINT_FAILED` and who has it while another process does. Throws a `TypeError` for a chunk
 * size that is not a whole number of bytes up to 64 MiB, or a level that zstd does not have.
 */
export function directoryStore(directory: string, options: DirectoryStoreOptions = {}): DirectoryStore {
  const { chunkBytes = 2 ** 20, zstdLevel, fs = nodeFs } = options
  if (!Number.isSafeInteger(chunkBytes) || chunkBytes < 1 || chunkBytes > mostChunkBytes) {
    throw new TypeError(`chunkBytes must be a whole number from 1 to ${mostChunkBytes}, not ${chunkBytes}`)
  }
  if (zstdLevel !== undefined && !(Number.isSafeInteger(zstdLevel) && zstdLevel >= 1 && zstdLevel <= mostZstdLevel)) {
    throw new TypeError(`zstdLevel must be a whole number from 1 to ${mostZstdLevel}, not ${zstdLevel}`)
  }
  // Named now: a later change of the working directory is not meant to move the store.
  const root = options.fs === undefined ? resolve(directory).replaceAll('\\', '/') : directory
  const home = `${root}/workloads`
  const shelves = new Map<string, WorkloadDirectory>()
  const buffers: Uint8Array<SharedArrayBuffer>[] = []
  const spare: Uint8Array<ArrayBuffer>[] = []
  let opening: Promise<StoreLock> | undefined
  let isClosed = false

  const openOnce = async (): Promise<StoreLock> => {
    if (isClosed) throw new EGpuError(EGpuErrorCode.Closed, `the checkpoint store ${root} was closed`)
    opening ??= take()
    try {
      return await opening
    } catch (error) {
      // The next call tries again: the other process may have ended, the disk may be back.
      opening = undefined
      throw error
    }
  }
  const take = async (): Promise<StoreLock> => {
    await fs.makeDirectory(home)
    await fs.syncDirectory(root)
    return StoreLock.take(fs, root)
  }
  const shelfOf = async (workloadId: string): Promise<WorkloadDirectory> => {
    const lock = await openOnce()
    const known = shelves.get(workloadId)
    if (known !== undefined) return known
    const name = directoryNameOf(workloadId)
    const path = `${home}/${name}`
    const found = (await fs.list(home)).find((entry) => entry.name === name)
    if (found !== undefined && found.kind !== 'directory') {
      throw new EGpuError(EGpuErrorCode.CheckpointCorrupt, `${path} is no directory but a link or a file; remove it`)
    }
    const shelf = new WorkloadDirectory({ fs, path, workloadId, lock, chunkBytes, zstdLevel, buffers, spare })
    shelves.set(workloadId, shelf)
    await shelf.sweep()
    return shelf
  }
  const close = async (): Promise<void> => {
    isClosed = true
    const lock = await opening?.catch(() => undefined)
    opening = undefined
    await lock?.release()
  }

  return {
    directory: root,
    async workloads() {
      await openOnce()
      const ids: string[] = []
      for (const { name, kind } of await fs.list(home)) {
        const id = kind === 'directory' ? workloadIdOf(name) : undefined
        if (id !== undefined && (await (await shelfOf(id)).list()).length > 0) ids.push(id)
      }
      return ids
    },
    list: async (workloadId): Promise<readonly CheckpointRecord[]> => (await shelfOf(workloadId)).list(),
    damaged: async (workloadId) => (await shelfOf(workloadId)).damaged(),
    acquire: async (workloadId) => (await shelfOf(workloadId)).acquire(),
    begin: async (draft) => (await shelfOf(draft.workloadId)).begin(draft),
    open: async (workloadId, generation) => (await shelfOf(workloadId)).open(generation),
    remove: async (workloadId, generation) => (await shelfOf(workloadId)).remove(generation),
    async verify(workloadId, generation) {
      const state = await (await shelfOf(workloadId)).open(generation, { thorough: true })
      for (const { name } of state.parts) for await (const _ of state.read(name, { transient: true }));
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Higher ones need more memory than the state itself may have. */
const mostZstdLevel = 19
