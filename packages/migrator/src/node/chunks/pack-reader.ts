import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { ReadOptions } from '@egpu/core'
import type { ChunkRef, ManifestPart } from '../manifest.ts'
import { hasCode } from '../store-fs.ts'
import type { StoreFile, StoreFs } from '../store-fs.ts'
import { contentOf, corrupt } from './content.ts'
import { readAhead, runBytes, RunReader } from './run-reader.ts'
import type { ReadRun, Run } from './run-reader.ts'

/** Less than this is read and checked here before threads for it have started. */
const worthThreads = 2 ** 24

export interface ReadPartOptions extends ReadOptions {
  /** Checks the SHA-256 of each chunk too; CRC-32 finds every accident, this finds intent as well. */
  readonly thorough?: boolean | undefined
  /** Memory that earlier reads are done with. */
  readonly spare: Uint8Array<ArrayBuffer>[]
}

/** The bytes of one part, chunk by chunk, each checked before it is handed over. */
export async function* readPart(
  fs: StoreFs,
  directory: string,
  { name, byteLength, chunks }: ManifestPart,
  { signal, transient = false, thorough = false, spare }: ReadPartOptions,
): AsyncGenerator<Uint8Array> {
  const packs = new Map<string, Promise<StoreFile>>()
  const pending: Promise<ReadRun>[] = []
  const reader = new RunReader({ transient, threads: byteLength >= worthThreads, spare })
  const read = async (run: Run): Promise<ReadRun> => {
    let opening = packs.get(run.pack)
    if (opening === undefined) packs.set(run.pack, (opening = openPack(fs, directory, run.pack)))
    return reader.read(await opening, run)
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
      const together = await (pending.shift() as Promise<ReadRun>)
      for (const [place, chunk] of run.chunks.entries()) {
        signal?.throwIfAborted()
        const at = chunk.offset - run.offset
        const stored = together.bytes.subarray(at, at + chunk.storedBytes)
        const bytes = await contentOf(chunk, stored, `part '${name}'`, together.crcs[place])
        if (thorough && createHash('sha256').update(bytes).digest('hex') !== chunk.sha256) {
          throw corrupt(`a chunk of part '${name}' in ${run.pack} was altered (SHA-256)`)
        }
        yield bytes
      }
      reader.giveBack(together)
    }
  } finally {
    await Promise.allSettled(pending)
    for (const opening of packs.values()) await opening.then((file) => file.close()).catch(() => undefined)
  }
}

/** Whether a chunk is still what was written. */
export async function isIntact(file: StoreFile, { offset, storedBytes, crc32: expected }: ChunkRef): Promise<boolean> {
  const bytes = new Uint8Array(storedBytes)
  return (await file.read(bytes, offset)) === storedBytes && crc32(bytes) === expected
}

function runsOf(chunks: readonly ChunkRef[]): readonly Run[] {
  const runs: Run[] = []
  for (const chunk of chunks) {
    const { pack, offset, storedBytes } = chunk
    const last = runs.at(-1)
    const isNext = last !== undefined && last.pack === pack && last.offset + last.storedBytes === offset
    if (isNext && last.storedBytes + storedBytes <= runBytes) {
      last.chunks.push(chunk)
      last.storedBytes += storedBytes
    } else {
      runs.push({ pack, offset, storedBytes, chunks: [chunk] })
    }
  }
  return runs
}

/** A checkpoint that was copied without all of its files shows here, before anything is restored from it. */
export async function assertComplete(fs: StoreFs, directory: string, parts: readonly ManifestPart[]): Promise<void> {
  const ends = new Map<string, number>()
  for (const { pack, offset, storedBytes } of parts.flatMap(({ chunks }) => chunks)) {
    ends.set(pack, Math.max(ends.get(pack) ?? 0, offset + storedBytes))
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
