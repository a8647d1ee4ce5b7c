import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { ChunkRef, ManifestPart } from './manifest.ts'
import { hasCode } from './store-fs.ts'
import type { StoreFile, StoreFs } from './store-fs.ts'

/** Neighbouring chunks are read together up to this many bytes: each call costs a trip to the thread pool. */
const runBytes = 2 ** 22

/** Runs that are read ahead of the one being checked. */
const readAhead = 2

export interface ReadPartOptions {
  readonly signal?: AbortSignal | undefined
  /** Checks the SHA-256 of each chunk too; CRC-32 finds every accident, this finds intent as well. */
  readonly thorough?: boolean | undefined
}

/** The bytes of one part, chunk by chunk, each checked before it is handed over. */
export async function* readPart(
  fs: StoreFs,
  directory: string,
  { name, chunks }: ManifestPart,
  { signal, thorough = false }: ReadPartOptions,
): AsyncGenerator<Uint8Array> {
  const packs = new Map<string, Promise<StoreFile>>()
  const pending: Promise<Uint8Array>[] = []
  const read = async (run: Run): Promise<Uint8Array> => {
    let opening = packs.get(run.pack)
    if (opening === undefined) packs.set(run.pack, (opening = openPack(fs, directory, run.pack)))
    const file = await opening
    // Every byte of it is read before any is looked at, so there is no need to clear it.
    const bytes = Buffer.allocUnsafeSlow(run.byteLength)
    const count = await file.read(bytes, run.offset)
    if (count < run.byteLength) throw corrupt(`${run.pack} ends within a chunk of part '${name}'`)
    return bytes
  }
  const runs = runsOf(chunks)
  try {
    let next = 0
    for (const run of runs) {
      while (next < runs.length && pending.length <= readAhead) {
        const reading = read(runs[next] as Run)
        reading.catch(() => undefined)
        pending.push(reading)
        next += 1
      }
      signal?.throwIfAborted()
      const together = await (pending.shift() as Promise<Uint8Array>)
      for (const chunk of run.chunks) {
        signal?.throwIfAborted()
        const at = chunk.offset - run.offset
        const bytes = together.subarray(at, at + chunk.byteLength)
        if (crc32(bytes) !== chunk.crc32) throw corrupt(`a chunk of part '${name}' in ${run.pack} was altered (CRC-32)`)
        if (thorough && createHash('sha256').update(bytes).digest('hex') !== chunk.sha256) {
          throw corrupt(`a chunk of part '${name}' in ${run.pack} was altered (SHA-256)`)
        }
        yield bytes
      }
    }
  } finally {
    await Promise.allSettled(pending)
    for (const opening of packs.values()) await opening.then((file) => file.close()).catch(() => undefined)
  }
}

/** Whether a chunk is still what was written. */
export async function isIntact(file: StoreFile, { offset, byteLength, crc32: expected }: ChunkRef): Promise<boolean> {
  const bytes = new Uint8Array(byteLength)
  return (await file.read(bytes, offset)) === byteLength && crc32(bytes) === expected
}

/** Chunks that lie one behind the other in one pack. */
interface Run {
  readonly pack: string
  readonly offset: number
  byteLength: number
  readonly chunks: ChunkRef[]
}

function runsOf(chunks: readonly ChunkRef[]): readonly Run[] {
  const runs: Run[] = []
  for (const chunk of chunks) {
    const last = runs.at(-1)
    const isNext = last !== undefined && last.pack === chunk.pack && last.offset + last.byteLength === chunk.offset
    if (isNext && last.byteLength + chunk.byteLength <= runBytes) {
      last.chunks.push(chunk)
      last.byteLength += chunk.byteLength
    } else {
      runs.push({ pack: chunk.pack, offset: chunk.offset, byteLength: chunk.byteLength, chunks: [chunk] })
    }
  }
  return runs
}

/** A checkpoint that was copied without all of its files shows here, before anything is restored from it. */
export async function assertComplete(fs: StoreFs, directory: string, parts: readonly ManifestPart[]): Promise<void> {
  const ends = new Map<string, number>()
  for (const { pack, offset, byteLength } of parts.flatMap(({ chunks }) => chunks)) {
    ends.set(pack, Math.max(ends.get(pack) ?? 0, offset + byteLength))
  }
  for (const [pack, end] of ends) {
    const file = await openPack(fs, directory, pack)
    try {
      const size = await file.size()
      if (size < end) throw corrupt(`${pack} has ${size} of at least ${end} bytes; was the store copied only in part?`)
    } finally {
      await file.close()
    }
  }
}

async function openPack(fs: StoreFs, directory: string, pack: string): Promise<StoreFile> {
  try {
    return await fs.open(`${directory}/${pack}`, 'read')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw corrupt(`${pack} is missing; was the store copied only in part?`, error)
    if (hasCode(error, 'ELOOP')) throw corrupt(`${pack} is a symbolic link`, error)
    throw error
  }
}

function corrupt(why: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint cannot be used: ${why}`, { cause })
}
