import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { ReadOptions } from '@egpu/core'
import type { ChunkRef, ManifestPart } from '../manifest.ts'
import { hasCode } from '../store-fs.ts'
import type { StoreFile, StoreFs } from '../store-fs.ts'
import { contentOf, corrupt } from './content.ts'

/** Neighbouring chunks are read together up to this many bytes: each call costs a trip to the thread pool. */
const runBytes = 2 ** 20

/**
 * Runs that are read ahead of the one being checked: enough for a disk. More memory than this is out of the processor's
 * cache before it is checked, and to touch it for the first time costs more than to read: four times as much of it made
 * a restore take twice as long.
 */
const readAhead = 2

export interface ReadPartOptions extends ReadOptions {
  /** Checks the SHA-256 of each chunk too; CRC-32 finds every accident, this finds intent as well. */
  readonly thorough?: boolean | undefined
}

/** The bytes of one part, chunk by chunk, each checked before it is handed over. */
export async function* readPart(
  fs: StoreFs,
  directory: string,
  { name, chunks }: ManifestPart,
  { signal, transient = false, thorough = false }: ReadPartOptions,
): AsyncGenerator<Uint8Array> {
  const packs = new Map<string, Promise<StoreFile>>()
  const pending: Promise<Uint8Array<ArrayBuffer>>[] = []
  const spare: Uint8Array<ArrayBuffer>[] = []
  const read = async (run: Run): Promise<Uint8Array<ArrayBuffer>> => {
    let opening = packs.get(run.pack)
    if (opening === undefined) packs.set(run.pack, (opening = openPack(fs, directory, run.pack)))
    const file = await opening
    const whole = spare.pop() ?? freshMemory(transient ? Math.max(runBytes, run.storedBytes) : run.storedBytes)
    const bytes = whole.byteLength < run.storedBytes ? freshMemory(run.storedBytes) : whole
    const count = await file.read(bytes.subarray(0, run.storedBytes), run.offset)
    if (count < run.storedBytes) throw corrupt(`${run.pack} ends within a chunk of part '${name}'`)
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
      const together = await (pending.shift() as Promise<Uint8Array<ArrayBuffer>>)
      for (const chunk of run.chunks) {
        signal?.throwIfAborted()
        const at = chunk.offset - run.offset
        const stored = together.subarray(at, at + chunk.storedBytes)
        const bytes = await contentOf(chunk, stored, `part '${name}'`)
        if (thorough && createHash('sha256').update(bytes).digest('hex') !== chunk.sha256) {
          throw corrupt(`a chunk of part '${name}' in ${run.pack} was altered (SHA-256)`)
        }
        yield bytes
      }
      if (transient) spare.push(together)
    }
  } finally {
    await Promise.allSettled(pending)
    for (const opening of packs.values()) await opening.then((file) => file.close()).catch(() => undefined)
  }
}

/** Every byte of it is read into before any is looked at, so there is no need to clear it. */
function freshMemory(byteLength: number): Uint8Array<ArrayBuffer> {
  return Buffer.allocUnsafeSlow(byteLength)
}

/** Whether a chunk is still what was written. */
export async function isIntact(file: StoreFile, { offset, storedBytes, crc32: expected }: ChunkRef): Promise<boolean> {
  const bytes = new Uint8Array(storedBytes)
  return (await file.read(bytes, offset)) === storedBytes && crc32(bytes) === expected
}

/** Chunks that lie one behind the other in one pack. */
interface Run {
  readonly pack: string
  readonly offset: number
  storedBytes: number
  readonly chunks: ChunkRef[]
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
