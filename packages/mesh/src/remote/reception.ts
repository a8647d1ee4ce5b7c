import { abandonable } from '@egpu/core'
import type { AbortOptions, SavedState } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore, CheckpointWriter } from '@egpu/migrator'
import type { ChunkRef } from '../bulk/chunk.ts'
import { pull } from '../bulk/pull.ts'
import type { Beginnings, PullOptions, PullSource } from '../bulk/pull.ts'
import { checkpointChunks, decodeCheckpointManifest } from './checkpoint-manifest.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'
import { planSteps } from './checkpoint-steps.ts'
import type { Step } from './checkpoint-steps.ts'
import { StateReader } from './state-chunks.ts'

/** A checkpoint that is here already: what it has need not travel. */
export interface KnownCheckpoint {
  readonly manifest: CheckpointManifest
  readonly state: SavedState
}

interface Arrival {
  readonly bytes: Buffer
  done(): void
}

/**
 * A checkpoint that comes into a store as the workload's newest, written while it comes, in as many pulls as it takes: what
 * came before one was broken off does not travel again. Nothing is committed unless all of it came and every chunk had the
 * hash it was announced with.
 */
export class Reception {
  /** What the sender offered it by. */
  readonly id: string
  readonly manifest: CheckpointManifest
  readonly #steps: readonly Step[]
  readonly #writer: CheckpointWriter
  readonly #reader: StateReader | undefined
  /** Came, and waits for what goes before it. */
  readonly #arrived = new Map<Step, Arrival>()
  /** Came in part. */
  readonly #begun = new Map<Step, Buffer>()
  readonly #held = new Map<string, Buffer>()
  #next = 0
  #appending: Promise<void> = Promise.resolve()
  #isBroken = false

  private constructor(
    id: string,
    manifest: CheckpointManifest,
    writer: CheckpointWriter,
    known: KnownCheckpoint | undefined,
  ) {
    this.id = id
    this.manifest = manifest
    this.#steps = planSteps(checkpointChunks(manifest), known?.manifest)
    this.#writer = writer
    this.#reader = known === undefined ? undefined : new StateReader(known.state, known.manifest.chunkBytes)
  }

  /** Pulls what the checkpoint is made of, and begins it in the store. Rejects like `pull`, and with what the store says. */
  static async begin(
    store: CheckpointStore,
    source: PullSource,
    ref: ChunkRef,
    { workloadId, known, ...pulling }: PullOptions & BeginOptions,
  ): Promise<Reception> {
    const { signal } = pulling
    let encoded: Buffer = Buffer.alloc(0)
    await pull(source, [ref], async (_, bytes) => void (encoded = Buffer.from(bytes)), { ...pulling, verify: true })
    const manifest = decodeCheckpointManifest(encoded, { workloadId })
    const token = await store.acquire(workloadId, { signal })
    const parts = manifest.parts.map(({ name, byteLength }) => ({ name, byteLength }))
    const writer = await store.begin({ workloadId, token, progress: manifest.progress, parts }, { signal })
    return new Reception(ref.id, manifest, writer, known)
  }

  /** Whether another pull can go on with it: what was broken off was not the store's fault. */
  get canGoOn(): boolean {
    return !this.#isBroken
  }

  /** Pulls what is missing. Rejects like `pull`, and with what the store says. */
  async pull(source: PullSource, options: PullOptions = {}): Promise<void> {
    const stop = new AbortController()
    const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal])
    // One that was under way when the pull before this was broken off.
    await abandonable(this.#appending, signal)
    let awaited: (() => void) | undefined
    const take = (step: Step, bytes: Buffer): Promise<void> =>
      new Promise((resolve) => {
        this.#arrived.set(step, { bytes, done: resolve })
        if (signal.aborted) resolve()
        awaited?.()
      })
    const missing = this.#steps.filter((step, index) => index >= this.#next && this.#isMissing(step))
    const pulling = pull(source, missing, take, { ...options, signal }, this.#beginnings)
    // The loop below hears of a failure through `failed`.
    const failed = pulling.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => Promise.reject(error instanceof Error ? error : new Error(String(error))),
    )
    failed.catch(() => undefined)
    try {
      for (let step = this.#steps[this.#next]; step !== undefined; step = this.#steps[this.#next]) {
        if (this.#isMissing(step)) {
          const expected = step
          const waiting = new Promise<void>((resolve) => {
            awaited = () => {
              if (!this.#isMissing(expected)) resolve()
            }
          })
          await Promise.race([waiting, failed])
        }
        this.#appending = this.#append(step)
        this.#appending.catch(() => undefined)
        await abandonable(this.#appending, signal)
      }
      await pulling
    } catch (error) {
      stop.abort(error)
      for (const arrival of this.#arrived.values()) arrival.done()
      await pulling.catch(() => undefined)
      throw error
    }
  }

  /** Makes it the newest checkpoint. */
  async commit(options: AbortOptions = {}): Promise<CheckpointRecord> {
    const record = await this.#writer.commit(options)
    await this.#reader?.close()
    return record
  }

  /** Forgets all of it. Calling it twice, or after `commit`, is fine. */
  async discard(): Promise<void> {
    this.#isBroken = true
    await this.#writer.discard().catch(() => undefined)
    await this.#reader?.close()
  }

  #isMissing(step: Step): boolean {
    return step.from === 'sender' && !this.#arrived.has(step)
  }

  get #beginnings(): Beginnings<Step> {
    return {
      recall: (step, buffer) => {
        const bytes = this.#begun.get(step)
        this.#begun.delete(step)
        return bytes?.copy(buffer) ?? 0
      },
      keep: async (step, bytes) => void this.#begun.set(step, Buffer.from(bytes)),
    }
  }

  /** Carried on with whether or not anybody waits for it: half of an append cannot be taken back. */
  async #append(step: Step): Promise<void> {
    try {
      const arrival = this.#arrived.get(step)
      const bytes = arrival?.bytes ?? (await this.#bytesHere(step))
      if (step.isKept && !this.#held.has(step.id)) this.#held.set(step.id, Buffer.from(bytes))
      await this.#writer.append(step.part, bytes)
      this.#next += 1
      this.#arrived.delete(step)
      arrival?.done()
    } catch (error) {
      this.#isBroken = true
      throw error
    }
  }

  async #bytesHere({ from, id, index, byteLength }: Step): Promise<Buffer> {
    if (from === 'held') return this.#held.get(id) as Buffer
    const bytes = Buffer.allocUnsafe(byteLength)
    await this.#reader?.read(index, bytes)
    return bytes
  }
}

interface BeginOptions {
  readonly workloadId: string
  readonly known?: KnownCheckpoint | undefined
}
