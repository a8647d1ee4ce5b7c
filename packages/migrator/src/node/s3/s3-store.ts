import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock } from '@egpu/core'
import type { CheckpointStore } from '../../checkpoint/store.ts'
import { mostChunkBytes } from '../manifest.ts'
import { directoryNameOf, workloadIdOf } from '../workload-name.ts'
import { S3Bucket } from './s3-bucket.ts'
import type { SendRequest } from './s3-bucket.ts'
import { S3Shelf } from './s3-shelf.ts'

export interface S3StoreOptions {
  /**
   * Of the bucket, path style, with a prefix in it if there is to be one:
   * `https://s3.eu-central-1.amazonaws.com/bucket/checkpoints`.
   */
  readonly url: string
  /** Signs and sends a request, as `AwsClient.fetch` of aws4fetch does. It need not repeat any: the store does. */
  readonly fetch: SendRequest
  /** Bytes per chunk, the unit that is compared, shared between checkpoints, sent and checked. Default 8 MiB. */
  readonly chunkBytes?: number | undefined
  /** Compresses chunks with zstd at this level, from 1 to 19; see `directoryStore`. */
  readonly zstdLevel?: number | undefined
  readonly clock?: Clock | undefined
}

/**
 * Checkpoints in a bucket of S3 or of what speaks its protocol. They outlive the host, and the next writer may be on
 * another one: whoever acquired last is the only writer, without any lock. The server has to honour `If-None-Match: *`
 * on PUT, as Amazon's does since August 2024, and to list what it has written, as all in use do. Throws a `TypeError` for
 * a URL or a chunk size that cannot be.
 */
export function s3Store(options: S3StoreOptions): CheckpointStore {
  const { fetch: send, chunkBytes = 2 ** 23, zstdLevel, clock } = options
  if (!Number.isSafeInteger(chunkBytes) || chunkBytes < 1 || chunkBytes > mostChunkBytes) {
    throw new TypeError(`chunkBytes must be a whole number from 1 to ${mostChunkBytes}, not ${chunkBytes}`)
  }
  const { origin, pathname, search } = new URL(options.url)
  const path = pathname.replace(/\/+$/, '')
  if (path === '' || search !== '') throw new TypeError(`url must name a bucket and no more, not ${options.url}`)
  const bucket = new S3Bucket({ url: `${origin}${path}`, send, clock })
  const buffers: Uint8Array<SharedArrayBuffer>[] = []
  const shelves = new Map<string, S3Shelf>()
  let isClosed = false

  const shelfOf = (workloadId: string): S3Shelf => {
    if (isClosed) throw new EGpuError(EGpuErrorCode.Closed, `the checkpoint store ${bucket.url} was closed`)
    const known = shelves.get(workloadId)
    if (known !== undefined) return known
    const name = directoryNameOf(workloadId)
    const shelf = new S3Shelf({ bucket, workloadId, name, chunkBytes, zstdLevel, buffers })
    shelves.set(workloadId, shelf)
    return shelf
  }
  const close = async (): Promise<void> => {
    isClosed = true
    shelves.clear()
  }
  return {
    async workloads(abort) {
      const ids: string[] = []
      for (const name of (await bucket.list('', { ...abort, delimiter: '/' })).prefixes) {
        const id = workloadIdOf(name)
        if (id !== undefined && (await shelfOf(id).list(abort)).length > 0) ids.push(id)
      }
      return ids
    },
    list: async (workloadId, abort) => shelfOf(workloadId).list(abort),
    damaged: async (workloadId, abort) => shelfOf(workloadId).damaged(abort),
    acquire: async (workloadId, abort) => shelfOf(workloadId).acquire(abort),
    begin: async (draft, abort) => shelfOf(draft.workloadId).begin(draft, abort),
    open: async (workloadId, generation, abort) => shelfOf(workloadId).open(generation, abort),
    remove: async (workloadId, generation, abort) => shelfOf(workloadId).remove(generation, abort),
    close,
    [Symbol.asyncDispose]: close,
  }
}
