import { randomBytes } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, ReadOptions, SavedState } from '@egpu/core'
import { PartTally } from '../../checkpoint/part-tally.ts'
import type { CheckpointDraft, CheckpointRecord, CheckpointWriter, DamagedCheckpoint } from '../../checkpoint/store.ts'
import { carryOver } from '../chunks/carry.ts'
import { ChunkWriter } from '../chunks/chunk-writer.ts'
import { contentOf, corrupt } from '../chunks/content.ts'
import { decodeManifest, encodeManifest, mostManifestBytes } from '../manifest.ts'
import type { ChunkRef, Manifest, ManifestPart } from '../manifest.ts'
import { decodeHead, encodeHead, mostHeadBytes } from './head.ts'
import type { Head, HeadEntry } from './head.ts'
import { objectName, ObjectSink, tokenOf } from './object-sink.ts'
import type { S3Bucket } from './s3-bucket.ts'

/** Others may be first with a head so often in a row before this is given up. */
const mostRaces = 20

/** Chunks that are read ahead of the one being checked. */
const readAhead = 4

/** Old heads that stay: the newest may turn out to be damaged. */
const keptHeads = 2

export interface S3ShelfOptions {
  readonly bucket: S3Bucket
  readonly workloadId: string
  /** Name of the workload's folder. */
  readonly name: string
  readonly chunkBytes: number
  readonly zstdLevel: number | undefined
  readonly buffers: Uint8Array<SharedArrayBuffer>[]
}

/** The newest head, by its number; the one before the first has the number 0. */
interface Found {
  readonly number: number
  readonly head: Head
  /** The newest cannot be read and this is the one before it. */
  readonly damage: EGpuError | undefined
}

/** What to write on top of a head, or `undefined` when there is nothing left to do. May be asked again, of a newer one. */
type Step = (found: Found) => Omit<Head, 'nonce'> | undefined

/**
 * One workload's objects: `heads/<number>`, `manifests/<random>` for each checkpoint and `packs/<random>` for each chunk.
 * The head with the highest number says what counts. A head is written by creating the next number, which only one of
 * several writers can; heads below the highest are removed, and one that a late writer creates there says nothing.
 */
export class S3Shelf {
  readonly #options: S3ShelfOptions
  readonly #manifests = new Map<string, Manifest>()
  #token: number | undefined

  constructor(options: S3ShelfOptions) {
    this.#options = options
  }

  async list(options: AbortOptions = {}): Promise<readonly CheckpointRecord[]> {
    const { head } = await this.#newest(options)
    return head.checkpoints.map(recordOf)
  }

  async damaged(options: AbortOptions = {}): Promise<readonly DamagedCheckpoint[]> {
    const { damage, number } = await this.#newest(options)
    return damage === undefined ? [] : [{ generation: number, error: damage }]
  }

  async acquire(options: AbortOptions = {}): Promise<number> {
    const token = await this.#advance(({ head, number }) => ({ ...head, token: number + 1 }), options)
    this.#token = token
    await this.#sweep(token, options).catch(() => undefined)
    return token
  }

  async begin(draft: CheckpointDraft, options: AbortOptions = {}): Promise<CheckpointWriter> {
    const { bucket, name, chunkBytes, zstdLevel, buffers } = this.#options
    const found = await this.#newest(options)
    this.#assertToken(draft, found)
    const tally = new PartTally(draft)
    const known = await this.#reusable(found.head, options)
    const base = await this.#baseOf(draft, found.head, options)
    const sink = new ObjectSink(bucket, name, draft.token)
    const chunks = new ChunkWriter({ sink, chunkBytes, known, zstdLevel, buffers })
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
        const record = await this.#publish(draft, await chunks.finish())
        isOver = true
        return record
      },
      discard: async () => {
        if (isOver) return
        isOver = true
        await chunks.discard()
      },
    }
  }

  async open(generation: number, options: AbortOptions = {}): Promise<SavedState> {
    const { workloadId } = this.#options
    const { head } = await this.#newest(options)
    const entry = head.checkpoints.find((candidate) => candidate.generation === generation)
    if (entry === undefined) {
      const message = `no checkpoint ${generation} of ${workloadId} in ${this.#options.bucket.url}`
      throw new EGpuError(EGpuErrorCode.CheckpointNotFound, message)
    }
    const { progress, parts } = await this.#manifest(entry, options)
    return {
      progress,
      parts: parts.map(({ name, byteLength }) => ({ name, byteLength })),
      read: (name, { signal }: ReadOptions = {}) => {
        const part = parts.find((candidate) => candidate.name === name)
        if (part !== undefined) return this.#readPart(part, { signal })
        throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `checkpoint ${generation} has no part '${name}'`)
      },
    }
  }

  async remove(generation: number, options: AbortOptions = {}): Promise<void> {
    const { bucket, name } = this.#options
    let gone: HeadEntry | undefined
    let left: readonly HeadEntry[] = []
    await this.#advance(({ head, number }) => {
      // The writer now may be building upon just this one.
      if (this.#token !== undefined && head.token !== this.#token)
        throw stale(this.#options.workloadId, head, this.#token)
      gone = head.checkpoints.find((entry) => entry.generation === generation)
      left = head.checkpoints.filter((entry) => entry.generation !== generation)
      if (gone === undefined) return undefined
      // Who is no writer shuts out the one there is: nothing may be built upon what goes.
      return { token: this.#token ?? number + 1, checkpoints: left }
    }, options)
    if (gone === undefined) return
    // Nothing new can refer to it any more: whoever writes takes chunks over only from what the head names.
    const dead = await this.#manifest(gone, options).catch(() => undefined)
    const live = new Set<string>()
    for (const entry of left) for (const pack of packsOf(await this.#manifest(entry, options))) live.add(pack)
    for (const pack of dead === undefined ? [] : packsOf(dead)) {
      if (!live.has(pack)) await bucket.remove(`${name}/packs/${pack}`, options)
    }
    await bucket.remove(`${name}/manifests/${gone.manifest}`, options)
    this.#manifests.delete(gone.manifest)
  }

  async #publish(draft: CheckpointDraft, chunks: ReadonlyMap<string, readonly ChunkRef[]>): Promise<CheckpointRecord> {
    const { bucket, name } = this.#options
    const manifestName = objectName(draft.token)
    const manifest: Manifest = {
      workloadId: draft.workloadId,
      // Its number is known only once it is written; the head says it.
      generation: 0,
      token: draft.token,
      progress: draft.progress,
      // A clock that stands before 1970 is no reason to lose a checkpoint.
      savedAtMs: Math.max(0, Date.now()),
      parts: draft.parts.map((part) => ({ ...part, chunks: chunks.get(part.name) ?? [] })),
    }
    await bucket.create(`${name}/manifests/${manifestName}`, new Uint8Array(encodeManifest(manifest)))
    let entry: HeadEntry | undefined
    await this.#advance((found) => {
      entry = found.head.checkpoints.find((candidate) => candidate.manifest === manifestName)
      if (entry !== undefined) return undefined
      this.#assertToken(draft, found)
      entry = {
        workloadId: draft.workloadId,
        generation: found.number + 1,
        progress: draft.progress,
        parts: draft.parts,
        byteLength: draft.parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
        savedAtMs: manifest.savedAtMs,
        manifest: manifestName,
      }
      return { ...found.head, checkpoints: [entry, ...found.head.checkpoints] }
    })
    this.#manifests.set(manifestName, manifest)
    return recordOf(entry as unknown as HeadEntry)
  }

  #assertToken({ token, workloadId }: CheckpointDraft, { head, damage }: Found): void {
    if (token === head.token && damage === undefined) return
    throw stale(workloadId, head, token)
  }

  /** Writes the next head, again on top of whatever others wrote meanwhile; resolves with its number. */
  async #advance(step: Step, options: AbortOptions = {}): Promise<number> {
    const { bucket, name, workloadId } = this.#options
    for (let race = 0; race < mostRaces; race += 1) {
      const found = await this.#newest(options)
      const next = step(found)
      if (next === undefined) return found.number
      const number = found.number + 1
      const nonce = randomBytes(16).toString('hex')
      const key = `${name}/heads/${numberName(number)}`
      const isFirst = await bucket.create(key, encodeHead({ ...next, nonce }), options)
      // Where there was one, it may be ours: its answer got lost and the request was sent again.
      if (!isFirst && (await this.#nonceOf(key, options)) !== nonce) continue
      // Heads below the highest are removed, so the number of one could have been free although it is long past.
      const numbers = await this.#numbers(options)
      const highest = numbers[0] ?? 0
      if (highest < number) {
        const message = `${bucket.url} does not list what was just written to it; it cannot be used as a checkpoint store`
        throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
      }
      if (highest > number) {
        // Either it was made on top of ours, and the next look shows what ours did, or ours came too late.
        await bucket.remove(key, options)
        continue
      }
      for (const old of numbers.filter((candidate) => candidate < number).slice(keptHeads - 1)) {
        await bucket.remove(`${name}/heads/${numberName(old)}`, options).catch(() => undefined)
      }
      return number
    }
    const message = `${mostRaces} times others were first with the checkpoints of ${workloadId}; nothing was written`
    throw new EGpuError(EGpuErrorCode.CheckpointFailed, message)
  }

  async #nonceOf(key: string, options: AbortOptions): Promise<string | undefined> {
    const bytes = await this.#options.bucket.get(key, { ...options, mostBytes: mostHeadBytes })
    return bytes === undefined ? undefined : decodeHead(bytes, this.#options.workloadId).nonce
  }

  /** Numbers of the heads that are there, highest first. */
  async #numbers(options: AbortOptions): Promise<readonly number[]> {
    const { keys } = await this.#options.bucket.list(`${this.#options.name}/heads/`, options)
    return keys
      .filter((key) => /^\d{15}$/.test(key))
      .map(Number)
      .sort((a, b) => b - a)
  }

  async #newest(options: AbortOptions): Promise<Found> {
    const { bucket, name } = this.#options
    for (let race = 0; race < mostRaces; race += 1) {
      const numbers = await this.#numbers(options)
      const number = numbers[0]
      if (number === undefined) return { number: 0, head: { token: 0, checkpoints: [], nonce: '' }, damage: undefined }
      let damage: EGpuError | undefined
      let isGone = false
      for (const candidate of numbers.slice(0, keptHeads)) {
        try {
          const head = await this.#head(candidate, options)
          if (head !== undefined) return { number, head, damage }
          isGone = true
          break
        } catch (error) {
          if (!EGpuError.is(error, EGpuErrorCode.CheckpointCorrupt)) throw error
          damage ??= error
        }
      }
      // Removed between the list and the read: there is a newer one.
      if (isGone) continue
      return { number, head: { token: 0, checkpoints: [], nonce: '' }, damage }
    }
    throw new EGpuError(
      EGpuErrorCode.CheckpointFailed,
      `the heads in ${bucket.url}/${name} change faster than they can be read`,
    )
  }

  /** `undefined` for one that is gone. */
  async #head(number: number, options: AbortOptions): Promise<Head | undefined> {
    const { bucket, name, workloadId } = this.#options
    return unlessOnlyOnWay(async () => {
      const bytes = await bucket.get(`${name}/heads/${numberName(number)}`, { ...options, mostBytes: mostHeadBytes })
      return bytes === undefined ? undefined : decodeHead(bytes, workloadId)
    })
  }

  async #manifest(entry: HeadEntry, options: AbortOptions): Promise<Manifest> {
    const known = this.#manifests.get(entry.manifest)
    if (known !== undefined) return known
    const { bucket, name, workloadId } = this.#options
    const manifest = await unlessOnlyOnWay(async () => {
      const key = `${name}/manifests/${entry.manifest}`
      const bytes = await bucket.get(key, { ...options, mostBytes: mostManifestBytes })
      if (bytes === undefined)
        throw corrupt(`its manifest ${entry.manifest} is missing; was the bucket copied only in part?`)
      return decodeManifest(bytes, { generation: 0 })
    })
    if (manifest.workloadId !== workloadId) throw corrupt(`it is of ${manifest.workloadId}, not of ${workloadId}`)
    this.#manifests.set(entry.manifest, manifest)
    return manifest
  }

  /** Chunks of the newest checkpoint, by content; none where it cannot be read. */
  async #reusable({ checkpoints }: Head, options: AbortOptions): Promise<ReadonlyMap<string, ChunkRef>> {
    const newest = checkpoints[0]
    if (newest === undefined) return new Map()
    const manifest = await this.#manifest(newest, options).catch(() => undefined)
    return new Map((manifest?.parts ?? []).flatMap(({ chunks }) => chunks.map((chunk) => [chunk.sha256, chunk])))
  }

  async #baseOf(draft: CheckpointDraft, head: Head, options: AbortOptions): Promise<Manifest | undefined> {
    const entry = head.checkpoints.find(({ generation }) => generation === draft.base)
    return entry === undefined ? undefined : this.#manifest(entry, options).catch(() => undefined)
  }

  async *#readPart(part: ManifestPart, options: AbortOptions): AsyncGenerator<Uint8Array> {
    const pending: Promise<Uint8Array>[] = []
    let next = 0
    try {
      while (next < part.chunks.length || pending.length > 0) {
        while (next < part.chunks.length && pending.length < readAhead) {
          const reading = this.#chunk(part.chunks[next] as ChunkRef, `part '${part.name}'`, options)
          reading.catch(() => undefined)
          pending.push(reading)
          next += 1
        }
        options.signal?.throwIfAborted()
        yield await (pending.shift() as Promise<Uint8Array>)
      }
    } finally {
      await Promise.allSettled(pending)
    }
  }

  async #chunk(chunk: ChunkRef, of: string, options: AbortOptions): Promise<Uint8Array> {
    const { bucket, name } = this.#options
    return unlessOnlyOnWay(async () => {
      const key = `${name}/packs/${chunk.pack}`
      const bytes = await bucket.get(key, { ...options, mostBytes: chunk.storedBytes })
      if (bytes === undefined) throw corrupt(`${chunk.pack} is missing; was the bucket copied only in part?`)
      return contentOf(chunk, bytes, of)
    })
  }

  /** What earlier writers left behind unfinished. Theirs can no longer be committed; a later writer's are left alone. */
  async #sweep(token: number, options: AbortOptions): Promise<void> {
    const { bucket, name } = this.#options
    const { head, damage } = await this.#newest(options)
    if (damage !== undefined || head.token !== token) return
    const needed = new Set<string>()
    for (const entry of head.checkpoints) {
      needed.add(entry.manifest)
      for (const pack of packsOf(await this.#manifest(entry, options))) needed.add(pack)
    }
    for (const folder of ['packs', 'manifests']) {
      for (const key of (await bucket.list(`${name}/${folder}/`, options)).keys) {
        if (tokenOf(key) < token && !needed.has(key)) await bucket.remove(`${name}/${folder}/${key}`, options)
      }
    }
  }
}

/** What was cut or altered on its way is whole when it is asked for again; what is stored so is not. */
async function unlessOnlyOnWay<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!EGpuError.is(error, EGpuErrorCode.CheckpointCorrupt)) throw error
    return read()
  }
}

function stale(workloadId: string, { token }: Head, ours: number): EGpuError {
  return new EGpuError(
    EGpuErrorCode.StaleEpoch,
    `another writer took over the checkpoints of ${workloadId} (token ${token}, ours is ${ours}); nothing was written`,
  )
}

function packsOf({ parts }: Manifest): readonly string[] {
  return parts.flatMap(({ chunks }) => chunks.map(({ pack }) => pack))
}

function recordOf(entry: HeadEntry): CheckpointRecord {
  const { workloadId, generation, progress, parts, byteLength, savedAtMs } = entry
  return { workloadId, generation, progress, parts, byteLength, savedAtMs }
}

function numberName(number: number): string {
  return String(number).padStart(15, '0')
}
