import { randomBytes } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { ReadOptions, SavedState } from '@egpu/core'
import { carryOver } from './chunks/carry.ts'
import { ChunkWriter } from './chunks/chunk-writer.ts'
import { assertComplete, isIntact, readPart } from './chunks/pack-reader.ts'
import { PackSink } from './chunks/pack-sink.ts'
import { PartTally } from '../checkpoint/part-tally.ts'
import type { CheckpointDraft, CheckpointRecord, CheckpointWriter, DamagedCheckpoint } from '../checkpoint/store.ts'
import { messageOf } from '../failure.ts'
import { CounterFile, generationAfter } from './counter-file.ts'
import type { Counters } from './counter-file.ts'
import { decodeManifest, encodeManifest, isPackName, mostManifestBytes } from './manifest.ts'
import type { ChunkRef, Manifest } from './manifest.ts'
import { Mutex } from './mutex.ts'
import { hasCode, readWhole, writeNew } from './store-fs.ts'
import type { StoreEntry, StoreFs } from './store-fs.ts'
import type { StoreLock } from './store-lock.ts'

/** Old packs may hold so much more than what is still needed of them before a checkpoint is written afresh. */
const mostWaste = 2

/**
 * Generations share chunks, so one that rots on the disk would spoil all of them. Each checkpoint therefore reads one in
 * so many of the chunks that it could share and writes those that are no longer what they were again.
 */
const scrubEvery = 16

export interface WorkloadDirectoryOptions {
  readonly fs: StoreFs
  readonly path: string
  readonly workloadId: string
  readonly lock: StoreLock
  readonly chunkBytes: number
  readonly zstdLevel: number | undefined
  readonly buffers: Uint8Array<SharedArrayBuffer>[]
  /** The same, for reading. */
  readonly spare: Uint8Array<ArrayBuffer>[]
}

/**
 * One workload's directory: `counters`, a `<generation>.manifest` for each committed checkpoint, and the packs that
 * their chunks are in. A manifest appears by a rename, after its packs are on the disk.
 */
export class WorkloadDirectory {
  readonly #options: WorkloadDirectoryOptions
  readonly #manifests = new Map<number, Manifest>()
  readonly #damaged = new Map<number, EGpuError>()
  readonly #mutex = new Mutex()
  readonly #writing = new Set<PackSink>()
  readonly #counters: CounterFile

  constructor(options: WorkloadDirectoryOptions) {
    this.#options = options
    this.#counters = new CounterFile(options.fs, options.path)
  }

  /** Committed checkpoints, newest first. */
  async list(): Promise<readonly CheckpointRecord[]> {
    await this.#look()
    return [...this.#manifests.values()].sort((a, b) => b.generation - a.generation).map(recordOf)
  }

  /** Manifests that cannot be used, newest first. */
  async damaged(): Promise<readonly DamagedCheckpoint[]> {
    await this.#look()
    return [...this.#damaged]
      .map(([generation, error]) => ({ generation, error }))
      .sort((a, b) => b.generation - a.generation)
  }

  /** Raises the token; earlier writers are shut out once this resolves. */
  acquire(): Promise<number> {
    return this.#mutex.run(async () => {
      const { fs, path, lock } = this.#options
      await lock.assertHeld()
      await fs.makeDirectory(path)
      await fs.syncDirectory(path.slice(0, path.lastIndexOf('/')))
      const { token, generation } = await this.#counters.read(this.#inUse())
      await this.#counters.write({ token: token + 1, generation })
      return token + 1
    })
  }

  async begin(draft: CheckpointDraft): Promise<CheckpointWriter> {
    await this.#assertToken(draft)
    await this.#look()
    const { fs, path, chunkBytes, zstdLevel, buffers } = this.#options
    const sink = new PackSink(fs, path)
    const known = await this.#reusable()
    const chunks = new ChunkWriter({ sink, chunkBytes, known, zstdLevel, buffers })
    const tally = new PartTally(draft)
    const base = draft.base === undefined ? undefined : this.#manifests.get(draft.base)
    this.#writing.add(sink)
    let isOver = false
    return {
      append: async (part, bytes, { signal } = {}) => {
        signal?.throwIfAborted()
        tally.add(part, bytes.byteLength)
        await chunks.append(part, bytes)
      },
      carry: base === undefined ? undefined : carryOver({ base, known, chunkBytes, tally, chunks }),
      commit: async ({ signal } = {}) => {
        if (isOver) throw new EGpuError(EGpuErrorCode.CheckpointFailed, 'this checkpoint is over already')
        signal?.throwIfAborted()
        tally.finish()
        const refs = await chunks.finish()
        const record = await this.#mutex.run(() => this.#publish(draft, refs))
        isOver = true
        this.#writing.delete(sink)
        return record
      },
      discard: async () => {
        if (isOver) return
        isOver = true
        await chunks.discard()
        this.#writing.delete(sink)
      },
    }
  }

  async open(generation: number, options: { readonly thorough?: boolean } = {}): Promise<SavedState> {
    await this.#look()
    const { fs, path, workloadId, spare } = this.#options
    const manifest = this.#manifests.get(generation)
    const damage = this.#damaged.get(generation)
    if (damage !== undefined) throw damage
    if (manifest === undefined) {
      throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `no checkpoint ${generation} of ${workloadId} in ${path}`)
    }
    await assertComplete(fs, path, manifest.parts)
    return {
      progress: manifest.progress,
      parts: manifest.parts.map(({ name, byteLength }) => ({ name, byteLength })),
      read: (name, { signal, transient }: ReadOptions = {}) => {
        const part = manifest.parts.find((candidate) => candidate.name === name)
        if (part !== undefined) return readPart(fs, path, part, { signal, transient, spare, ...options })
        throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `checkpoint ${generation} has no part '${name}'`)
      },
    }
  }

  remove(generation: number): Promise<void> {
    return this.#mutex.run(async () => {
      const { fs, path, lock } = this.#options
      await lock.assertHeld()
      await this.#look()
      await this.#counters.keepGeneration(this.#inUse())
      await fs.remove(`${path}/${fileOf(generation)}`)
      await fs.syncDirectory(path)
      this.#manifests.delete(generation)
      this.#damaged.delete(generation)
      await this.#sweep()
    })
  }

  /** Removes what a crash left behind. */
  sweep(): Promise<void> {
    return this.#mutex.run(async () => {
      await this.#look()
      await this.#sweep()
    })
  }

  async #publish(draft: CheckpointDraft, chunks: ReadonlyMap<string, readonly ChunkRef[]>): Promise<CheckpointRecord> {
    const { fs, path, lock } = this.#options
    // The packs' names must last before anything refers to them.
    await fs.syncDirectory(path)
    const counters = await this.#counters.read(this.#inUse())
    const manifest: Manifest = {
      workloadId: draft.workloadId,
      generation: generationAfter(counters),
      token: draft.token,
      progress: draft.progress,
      // A clock that stands before 1970 is no reason to lose a checkpoint.
      savedAtMs: Math.max(0, Date.now()),
      parts: draft.parts.map((part) => ({ ...part, chunks: chunks.get(part.name) ?? [] })),
    }
    const final = `${path}/${fileOf(manifest.generation)}`
    const temporary = `${final}.${randomBytes(8).toString('hex')}.tmp`
    try {
      await writeNew(fs, temporary, encodeManifest(manifest))
      await lock.assertHeld()
      await this.#assertToken(draft)
      await fs.rename(temporary, final)
      try {
        await fs.syncDirectory(path)
      } catch (error) {
        await fs.remove(final)
        throw error
      }
    } catch (error) {
      await fs.remove(temporary).catch(() => undefined)
      throw error
    }
    this.#manifests.set(manifest.generation, manifest)
    return recordOf(manifest)
  }

  async #assertToken({ token, workloadId }: CheckpointDraft): Promise<void> {
    const { token: newest } = await this.#counters.read(this.#inUse())
    if (token === newest) return
    throw new EGpuError(
      EGpuErrorCode.StaleEpoch,
      `another writer took over the checkpoints of ${workloadId} (token ${newest}, ours is ${token}); nothing was written`,
    )
  }

  /** The highest numbers of the checkpoints there are. */
  #inUse(): Counters {
    const tokens = [...this.#manifests.values()].map(({ token }) => token)
    return { token: highest(tokens), generation: this.#newestGeneration() }
  }

  /** Reads the manifests that are new, and forgets those that somebody removed. */
  async #look(): Promise<void> {
    const { fs, path, workloadId, lock } = this.#options
    await lock.assertPlace()
    const found = new Map(
      (await this.#entries()).flatMap(({ name, kind }) => {
        const generation = generationOf(name)
        return generation === undefined ? [] : [[generation, kind]]
      }),
    )
    for (const known of this.#manifests.keys()) if (!found.has(known)) this.#manifests.delete(known)
    for (const known of this.#damaged.keys()) if (!found.has(known)) this.#damaged.delete(known)
    for (const [generation, kind] of found) {
      if (this.#manifests.has(generation) || this.#damaged.has(generation)) continue
      try {
        if (kind !== 'file')
          throw new RangeError(`${path}/${fileOf(generation)} is no file; was it replaced by a link?`)
        const bytes = await readWhole(fs, `${path}/${fileOf(generation)}`, mostManifestBytes)
        if (bytes === undefined) continue
        const manifest = decodeManifest(bytes, { generation })
        if (manifest.workloadId !== workloadId) throw ofAnother(manifest.workloadId, workloadId)
        this.#manifests.set(generation, manifest)
      } catch (error) {
        if (!EGpuError.is(error) && !(error instanceof RangeError) && !(error instanceof SyntaxError)) throw error
        this.#damaged.set(generation, EGpuError.is(error) ? error : unusable(error))
      }
    }
  }

  async #files(): Promise<readonly string[]> {
    return (await this.#entries()).filter(({ kind }) => kind === 'file').map(({ name }) => name)
  }

  async #entries(): Promise<readonly StoreEntry[]> {
    const { fs, path } = this.#options
    try {
      return await fs.list(path)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return []
      throw error
    }
  }

  #newestGeneration(): number {
    return highest([...this.#manifests.keys(), ...this.#damaged.keys()])
  }

  /** Chunks of the newest checkpoint, by content; none when most of what its packs hold is dead. */
  async #reusable(): Promise<ReadonlyMap<string, ChunkRef>> {
    const newest = this.#manifests.get(this.#newestGeneration())
    const chunks = new Map((newest?.parts ?? []).flatMap((part) => part.chunks.map((chunk) => [chunk.sha256, chunk])))
    const live = [...chunks.values()].reduce((sum, { storedBytes }) => sum + storedBytes, 0)
    const { fs, path } = this.#options
    let held = 0
    let place = 0
    for (const pack of new Set([...chunks.values()].map((chunk) => chunk.pack))) {
      const file = await fs.open(`${path}/${pack}`, 'read').catch(() => undefined)
      // A pack that is gone makes its checkpoint useless, and nothing may be built on it.
      if (file === undefined) return new Map()
      try {
        held += await file.size()
        for (const chunk of [...chunks.values()].filter((candidate) => candidate.pack === pack)) {
          const isDue = (place += 1) % scrubEvery === (newest?.generation ?? 0) % scrubEvery
          if (isDue && !(await isIntact(file, chunk))) chunks.delete(chunk.sha256)
        }
      } finally {
        await file.close()
      }
    }
    return held > (1 + mostWaste) * live ? new Map() : chunks
  }

  /** What no manifest refers to and nobody is writing goes. A manifest that cannot be read may refer to anything. */
  async #sweep(): Promise<void> {
    const { fs, path } = this.#options
    const needed = new Set(
      [...this.#manifests.values()].flatMap(({ parts }) =>
        parts.flatMap(({ chunks }) => chunks.map(({ pack }) => pack)),
      ),
    )
    for (const { name } of this.#writing) needed.add(name)
    for (const name of await this.#files()) {
      const isDeadPack = this.#damaged.size === 0 && isPackName(name) && !needed.has(name)
      if (isDeadPack || (name.endsWith('.tmp') && this.#writing.size === 0)) await fs.remove(`${path}/${name}`)
    }
  }
}

function highest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0)
}

function fileOf(generation: number): string {
  return `${String(generation).padStart(12, '0')}.manifest`
}

function generationOf(name: string): number | undefined {
  return /^\d{12,15}\.manifest$/.test(name) ? Number.parseInt(name, 10) : undefined
}

function recordOf({ workloadId, generation, progress, parts, savedAtMs }: Manifest): CheckpointRecord {
  return {
    workloadId,
    generation,
    progress,
    parts: parts.map(({ name, byteLength }) => ({ name, byteLength })),
    byteLength: parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
    savedAtMs,
  }
}

function ofAnother(found: string, expected: string): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint is of ${found}, not of ${expected}`)
}

function unusable(error: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint cannot be used: ${messageOf(error)}`, {
    cause: error,
  })
}
