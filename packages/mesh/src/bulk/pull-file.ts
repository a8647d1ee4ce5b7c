import { open, rename, stat, statfs } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { asChunkRef, malformed } from './chunk.ts'
import type { ChunkRef } from './chunk.ts'
import { hashChunks } from './describe.ts'
import { readFully, writeFully } from './file-bytes.ts'
import { chunkRefs, decodeManifest } from './manifest.ts'
import type { BulkManifest, PlacedChunk } from './manifest.ts'
import { PartialChunks } from './partial-chunks.ts'
import { pull } from './pull.ts'
import type { PullOptions, PullReport, PullSource } from './pull.ts'

export interface PullFileOptions extends PullOptions {
  /** Where the file goes, chosen by this host: what the sender says has no part in it. */
  readonly to: string
  /** Larger files are refused. Default: no limit but the disk's. */
  readonly mostBytes?: number | undefined
}

export interface PulledFile extends PullReport {
  readonly byteLength: number
  /** Bytes that were here already, from an earlier attempt or an older version of the file. */
  readonly reusedBytes: number
}

/** The manifest that an offer's reference stands for, pulled and checked. */
export async function pullManifest(
  source: PullSource,
  ref: ChunkRef,
  options: PullOptions = {},
): Promise<BulkManifest> {
  let bytes: Buffer = Buffer.alloc(0)
  const checked = asChunkRef(ref.id, ref.byteLength)
  await pull(source, [checked], async (_, chunk) => void (bytes = Buffer.from(chunk)), { ...options, verify: true })
  return decodeManifest(bytes)
}

/**
 * Pulls a file to where it belongs. Until all of it is here and on the disk it has another name beside that, from which a
 * later call goes on: what came before a cut is not sent again, also of chunks that came in part. Chunks that an older
 * version of the file has are taken from there. Never holds more than a few chunks in memory. Rejects like `pull`, with `EGPU_MALFORMED_DATA` for a manifest that cannot be, with
 * `EGPU_PEER_REFUSED` when the disk has no room for it, and with the system's errors.
 */
export async function pullFile(source: PullSource, ref: ChunkRef, options: PullFileOptions): Promise<PulledFile> {
  const { to, mostBytes = Infinity, signal } = options
  const manifest = await pullManifest(source, ref, options)
  const { byteLength, chunkBytes } = manifest
  if (byteLength > mostBytes) throw malformed(`the file has ${byteLength} bytes, at most ${mostBytes} were expected`)
  const partial = `${to}.${ref.id.slice(0, 16)}.part`
  const file = await openOrCreate(partial)
  try {
    const missing = placesOf(manifest)
    const had = await hashesIn(file, byteLength, chunkBytes, signal)
    for (const [index, id] of had.entries()) dropPlace(missing, id, index * chunkBytes)
    await copyKnown(
      file,
      missing,
      had.map((id, index) => [id, index * chunkBytes]),
      file,
    )
    const older = await openExisting(to)
    if (older !== undefined) {
      try {
        const ids = await hashesIn(older, Infinity, chunkBytes, signal)
        await copyKnown(
          older,
          missing,
          ids.map((id, index) => [id, index * chunkBytes]),
          file,
        )
      } finally {
        await older.close()
      }
    }
    await assertRoom(to, bytesIn(missing))
    const chunks = [...missing.values()].map(({ chunk }) => chunk)
    const beginnings = await PartialChunks.open(file, byteLength, chunks)
    const write = async ({ id }: ChunkRef, bytes: Buffer): Promise<void> => {
      for (const offset of missing.get(id)?.offsets ?? []) await writeFully(file, bytes, offset)
    }
    const report = await pull(source, chunks, write, options, beginnings).catch(async (error: unknown) => {
      // What cannot be noted travels again.
      await beginnings.writeNote().catch(() => undefined)
      throw error
    })
    await file.truncate(byteLength)
    await file.sync()
    await rename(partial, to)
    await syncDirectory(dirname(to))
    const begunBytes = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0) - report.bytes
    return { ...report, byteLength, reusedBytes: byteLength - bytesIn(missing) + begunBytes }
  } finally {
    await file.close()
  }
}

/** Content that occurs often travels once and fills the disk all the same, so it is asked for first. */
async function assertRoom(to: string, byteLength: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(to))
  if (byteLength <= bavail * bsize) return
  const message = `${to} needs ${byteLength} more bytes, and ${bavail * bsize} are free there`
  throw new EGpuError(EGpuErrorCode.PeerRefused, message)
}

interface Places {
  readonly chunk: PlacedChunk
  readonly offsets: Set<number>
}

/** What is missing, by content, in the order of the file: content that occurs twice travels once. */
function placesOf(manifest: BulkManifest): Map<string, Places> {
  const places = new Map<string, Places>()
  for (const chunk of chunkRefs(manifest)) {
    const known = places.get(chunk.id)
    if (known === undefined) places.set(chunk.id, { chunk, offsets: new Set([chunk.offset]) })
    else known.offsets.add(chunk.offset)
  }
  return places
}

function dropPlace(missing: Map<string, Places>, id: string, offset: number): void {
  const places = missing.get(id)
  places?.offsets.delete(offset)
  if (places?.offsets.size === 0) missing.delete(id)
}

/** Fills every place whose content `from` has somewhere. */
async function copyKnown(
  from: FileHandle,
  missing: Map<string, Places>,
  known: readonly (readonly [id: string, offset: number])[],
  to: FileHandle,
): Promise<void> {
  for (const [id, offset] of known) {
    const places = missing.get(id)
    if (places === undefined) continue
    const bytes = Buffer.allocUnsafeSlow(places.chunk.byteLength)
    await readFully(from, bytes, offset)
    for (const place of places.offsets) await writeFully(to, bytes, place)
    missing.delete(id)
  }
}

function bytesIn(missing: ReadonlyMap<string, Places>): number {
  return [...missing.values()].reduce((sum, { chunk, offsets }) => sum + chunk.byteLength * offsets.size, 0)
}

async function hashesIn(
  file: FileHandle,
  mostBytes: number,
  chunkBytes: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const { size } = await file.stat()
  return hashChunks(file, Math.min(size, mostBytes), chunkBytes, signal)
}

async function openOrCreate(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'wx+', 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return open(path, 'r+')
  }
}

async function openExisting(path: string): Promise<FileHandle | undefined> {
  try {
    // A FIFO would not open until somebody writes to it.
    return (await stat(path)).isFile() ? await open(path, 'r') : undefined
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function syncDirectory(path: string): Promise<void> {
  // Windows opens no directories and needs no such call.
  if (process.platform === 'win32') return
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
