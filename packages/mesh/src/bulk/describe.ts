import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import type { AbortOptions } from '@egpu/core'
import { readFully } from './file-bytes.ts'
import { hashes, sharedBuffer } from './hash-pool.ts'
import { defaultChunkBytes } from './manifest.ts'
import type { BulkManifest } from './manifest.ts'
import { mostChunkBytes } from './chunk.ts'

export interface DescribeOptions extends AbortOptions {
  /** Default 4 MiB. */
  readonly chunkBytes?: number | undefined
}

/** Reads a file once and says what it is made of. Rejects with the system's error when it cannot be read. */
export async function describeFile(path: string, options: DescribeOptions = {}): Promise<BulkManifest> {
  const { chunkBytes = defaultChunkBytes, signal } = options
  if (!Number.isSafeInteger(chunkBytes) || chunkBytes < 1 || chunkBytes > mostChunkBytes) {
    throw new TypeError(`chunkBytes must be a whole number from 1 to ${mostChunkBytes}, not ${chunkBytes}`)
  }
  const file = await open(path, 'r')
  try {
    const stat = await file.stat()
    if (stat.isDirectory()) throw Object.assign(new Error(`EISDIR: ${path} is a directory`), { code: 'EISDIR', path })
    const { size } = stat
    const chunks = await hashChunks(file, size, chunkBytes, signal)
    return { byteLength: size, chunkBytes, chunks }
  } finally {
    await file.close()
  }
}

/** Chunks that are read and hashed at the same time. */
const inFlight = 4

/** SHA-256 of each chunk of the first `byteLength` bytes. */
export async function hashChunks(
  file: FileHandle,
  byteLength: number,
  chunkBytes: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const count = Math.ceil(byteLength / chunkBytes)
  const ids = Array.from<string>({ length: count })
  let next = 0
  const work = async (): Promise<void> => {
    const buffer = sharedBuffer(Math.min(chunkBytes, byteLength))
    for (let index = next++; index < count; index = next++) {
      signal?.throwIfAborted()
      const offset = index * chunkBytes
      const bytes = buffer.subarray(0, Math.min(chunkBytes, byteLength - offset))
      await readFully(file, bytes, offset)
      ids[index] = await hashes.sha256(bytes)
    }
  }
  await Promise.all(Array.from({ length: Math.min(inFlight, count) }, work))
  return ids
}
