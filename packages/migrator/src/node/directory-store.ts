import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { SavedState } from '@egpu/core'
import type { CheckpointStore, CheckpointWriter, DamagedCheckpoint } from '../checkpoint/store.ts'
import { mostChunkBytes } from './manifest.ts'
import { Place } from './place.ts'
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
 * A store in a directory of its own, which is made when it is first used and belongs to one store at a time. Calls reject
 * with `EGPU_CHECKPOINT_FAILED` while another process has it, saying who, and where the directory cannot be used, saying why
 * and with the system's error as the cause. Throws a `TypeError` for an empty path, for a chunk size that is not a whole
 * number of bytes up to 64 MiB, and for a level that zstd does not have.
 */
export function directoryStore(directory: string, options: DirectoryStoreOptions = {}): DirectoryStore {
  const { chunkBytes = 2 ** 20, zstdLevel, fs = nodeFs } = options
  if (!Number.isSafeInteger(chunkBytes) || chunkBytes < 1 || chunkBytes > mostChunkBytes) {
    throw new TypeError(`chunkBytes must be a whole number from 1 to ${mostChunkBytes}, not ${chunkBytes}`)
  }
  if (zstdLevel !== undefined && !(Number.isSafeInteger(zstdLevel) && zstdLevel >= 1 && zstdLevel <= mostZstdLevel)) {
    throw new TypeError(`zstdLevel must be a whole number from 1 to ${mostZstdLevel}, not ${zstdLevel}`)
  }
  const place = new Place('the checkpoint store', directory)
  // A file system of the caller's has paths of its own.
  const root = options.fs === undefined ? place.path : directory
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
    await lock.assertPlace()
    const found = (await fs.list(home)).find((entry) => entry.name === name)
    if (found !== undefined && found.kind !== 'directory') {
      throw new EGpuError(EGpuErrorCode.CheckpointCorrupt, `${path} is no directory but a link or a file; remove it`)
    }
    const shelf = new WorkloadDirectory({ fs, path, workloadId, lock, chunkBytes, zstdLevel, buffers, spare })
    shelves.set(workloadId, shelf)
    await shelf.sweep()
    return shelf
  }
  const open = (workloadId: string, generation: number, how: { readonly thorough?: boolean }): Promise<SavedState> =>
    place.use(async () => {
      const state = await (await shelfOf(workloadId)).open(generation, how)
      return { ...state, read: (part, options) => place.read(state.read(part, options)) }
    })
  const close = (): Promise<void> =>
    place.use(async () => {
      isClosed = true
      const lock = await opening?.catch(() => undefined)
      opening = undefined
      await lock?.release()
    })

  return {
    directory: root,
    workloads: () =>
      place.use(async () => {
        const lock = await openOnce()
        await lock.assertPlace()
        const ids: string[] = []
        for (const { name, kind } of await fs.list(home)) {
          const id = kind === 'directory' ? workloadIdOf(name) : undefined
          if (id !== undefined && (await (await shelfOf(id)).list()).length > 0) ids.push(id)
        }
        return ids
      }),
    list: (workloadId) => place.use(async () => (await shelfOf(workloadId)).list()),
    damaged: (workloadId) => place.use(async () => (await shelfOf(workloadId)).damaged()),
    acquire: (workloadId) => place.use(async () => (await shelfOf(workloadId)).acquire()),
    begin: (draft) => place.use(async () => explaining(place, await (await shelfOf(draft.workloadId)).begin(draft))),
    open: (workloadId, generation) => open(workloadId, generation, {}),
    remove: (workloadId, generation) => place.use(async () => (await shelfOf(workloadId)).remove(generation)),
    async verify(workloadId, generation) {
      const state = await open(workloadId, generation, { thorough: true })
      for (const { name } of state.parts) for await (const _ of state.read(name, { transient: true }));
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function explaining(place: Place, writer: CheckpointWriter): CheckpointWriter {
  return {
    append: (part, bytes, options) => place.use(() => writer.append(part, bytes, options)),
    carry: writer.carry,
    commit: (options) => place.use(() => writer.commit(options)),
    discard: () => place.use(() => writer.discard()),
  }
}

/** Higher ones need more memory than the state itself may have. */
const mostZstdLevel = 19
