import type { SavedState } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore } from '@egpu/migrator'
import type { ChunkRef } from '../bulk/chunk.ts'
import { pull } from '../bulk/pull.ts'
import type { PullOptions, PullReport, PullSource } from '../bulk/pull.ts'
import { checkpointChunks, decodeCheckpointManifest } from './checkpoint-manifest.ts'
import type { CheckpointChunk, CheckpointManifest } from './checkpoint-manifest.ts'
import { StateReader } from './state-chunks.ts'

/** A checkpoint that is here already: what it has need not travel. */
export interface KnownCheckpoint {
  readonly manifest: CheckpointManifest
  readonly state: SavedState
}

export interface ReceiveOptions extends PullOptions {
  readonly workloadId: string
  readonly known?: KnownCheckpoint | undefined
  /** Called right before the commit; throwing discards everything. */
  readonly beforeCommit?: (() => void) | undefined
}

export interface ReceivedCheckpoint {
  readonly record: CheckpointRecord
  readonly manifest: CheckpointManifest
  readonly report: PullReport
}

/** Content that occurs again is kept in memory up to this much, and pulled again beyond. */
const mostHeldBytes = 2 ** 26

/**
 * Pulls a checkpoint into a store as the workload's newest, writing while it comes. Nothing is committed unless all of it
 * came and every chunk had the hash it was announced with. Rejects like `pull`, and with what the store says.
 */
export async function receiveCheckpoint(
  store: CheckpointStore,
  source: PullSource,
  ref: ChunkRef,
  options: ReceiveOptions,
): Promise<ReceivedCheckpoint> {
  const { workloadId, known, beforeCommit, ...pulling } = options
  const { signal } = pulling
  let encoded: Buffer = Buffer.alloc(0)
  await pull(source, [ref], async (_, bytes) => void (encoded = Buffer.from(bytes)), { ...pulling, verify: true })
  const manifest = decodeCheckpointManifest(encoded, { workloadId })
  const steps = planSteps(checkpointChunks(manifest), known?.manifest)
  const token = await store.acquire(workloadId, { signal })
  const parts = manifest.parts.map(({ name, byteLength }) => ({ name, byteLength }))
  const writer = await store.begin({ workloadId, token, progress: manifest.progress, parts }, { signal })
  try {
    const report = await fill(steps, source, pulling, known, (part, bytes) => writer.append(part, bytes, { signal }))
    signal?.throwIfAborted()
    beforeCommit?.()
    return { record: await writer.commit({ signal }), manifest, report }
  } catch (error) {
    await writer.discard().catch(() => undefined)
    throw error
  }
}

/** How one chunk of the new checkpoint comes about. */
interface Step extends CheckpointChunk {
  readonly from: 'known' | 'held' | 'sender'
  /** In the known checkpoint. */
  readonly index: number
  /** Occurs again. */
  readonly isKept: boolean
}

function planSteps(chunks: readonly CheckpointChunk[], known: CheckpointManifest | undefined): readonly Step[] {
  const indexes = new Map((known === undefined ? [] : checkpointChunks(known)).map(({ id }, index) => [id, index]))
  const times = new Map<string, number>()
  for (const { id } of chunks) times.set(id, (times.get(id) ?? 0) + 1)
  const held = new Set<string>()
  let heldBytes = 0
  return chunks.map((chunk): Step => {
    const index = indexes.get(chunk.id)
    if (held.has(chunk.id)) return { ...chunk, from: 'held', index: 0, isKept: true }
    const isKept = (times.get(chunk.id) ?? 0) > 1 && heldBytes + chunk.byteLength <= mostHeldBytes
    if (isKept) {
      held.add(chunk.id)
      heldBytes += chunk.byteLength
    }
    return { ...chunk, from: index === undefined ? 'sender' : 'known', index: index ?? 0, isKept }
  })
}

type Append = (part: string, bytes: Uint8Array) => Promise<void>

/** Takes chunks as they come and appends them in order. The earliest that is missing always has a buffer to come into. */
async function fill(
  steps: readonly Step[],
  source: PullSource,
  options: PullOptions,
  known: KnownCheckpoint | undefined,
  append: Append,
): Promise<PullReport> {
  const stop = new AbortController()
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal])
  const arrived = new Map<Step, { readonly bytes: Buffer; done(): void }>()
  let awaited: (() => void) | undefined
  const take = (step: Step, bytes: Buffer): Promise<void> =>
    new Promise((resolve) => {
      arrived.set(step, { bytes, done: resolve })
      if (signal.aborted) resolve()
      awaited?.()
    })
  const pulling = pull(
    source,
    steps.filter(({ from }) => from === 'sender'),
    take,
    { ...options, signal },
  )
  // The consumer below hears of a failure through `failed`.
  const failed = pulling.then(
    () => new Promise<never>(() => {}),
    (error: unknown) => Promise.reject(error instanceof Error ? error : new Error(String(error))),
  )
  failed.catch(() => undefined)
  const reader = known === undefined ? undefined : new StateReader(known.state, known.manifest.chunkBytes)
  const held = new Map<string, Buffer>()
  const bytesOf = async (step: Step): Promise<Buffer> => {
    if (step.from === 'held') return held.get(step.id) as Buffer
    const bytes = Buffer.allocUnsafe(step.byteLength)
    await reader?.read(step.index, bytes)
    return bytes
  }
  try {
    for (const step of steps) {
      if (step.from === 'sender' && !arrived.has(step)) {
        const waiting = new Promise<void>((resolve) => {
          awaited = () => {
            if (arrived.has(step)) resolve()
          }
        })
        await Promise.race([waiting, failed])
      }
      const arrival = arrived.get(step)
      const bytes = arrival?.bytes ?? (await bytesOf(step))
      if (step.isKept && !held.has(step.id)) held.set(step.id, Buffer.from(bytes))
      await append(step.part, bytes)
      arrived.delete(step)
      arrival?.done()
    }
    return await pulling
  } catch (error) {
    stop.abort(error)
    for (const arrival of arrived.values()) arrival.done()
    await pulling.catch(() => undefined)
    throw error
  } finally {
    await reader?.close()
  }
}
