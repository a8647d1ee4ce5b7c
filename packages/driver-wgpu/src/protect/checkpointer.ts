import { systemClock } from '@egpu/core'
import { ChangeFinder } from '../checkpoint/change-finder.ts'
import type { Found } from '../checkpoint/change-finder.ts'
import { askAgainMs, isHeld } from '../checkpoint/pace.ts'
import { drainSpans, Ring } from '../checkpoint/ring.ts'
import type { Span } from '../checkpoint/ring.ts'
import { BufferUsage } from '../flags.ts'
import { isCompared, isReplacedSince, overlap, planCheckpoint, putBack } from './checkpoint-plan.ts'
import type { Extent, Piece, Plan } from './checkpoint-plan.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import type { BufferNode } from './nodes/buffer-node.ts'
import type { TextureNode } from './nodes/texture-node.ts'
import type { CheckpointOptions } from './options.ts'

interface Frozen extends Plan {
  readonly cutSeq: number
  /** `core.errorsHeard` at that moment. */
  readonly errorsHeard: number
  readonly incarnation: Incarnation
  /** One of each segment. */
  readonly copies: readonly GPUBuffer[]
  /** Asks what of a piece really changed, where that was compared. */
  readonly found: ReadonlyMap<Piece, Found>
  /** Why it holds nothing: the copies did not fit next to everything else, for example. */
  readonly failure: Promise<GPUError | null>
}

/** Content that was brought to the host; none of a texture that meanwhile turned out not to be needed. */
interface Moved {
  readonly piece: Piece
  readonly extent: Extent
  readonly bytes: Uint8Array | undefined
}

/** What belongs to one device: staging buffers, and what the buffers were the last time, in short. */
interface Tools {
  readonly incarnation: Incarnation
  readonly ring: Ring
  readonly finder: ChangeFinder | undefined
  digests: WeakMap<BufferNode, GPUBuffer>
}

/** Between two checkpoints there is at least this many times what the last one took: at most a tenth of the time. */
const restFactor = 9

/**
 * Saves what changed, so that the log of what would have to be done again stays short. Freezing is a copy on the
 * device at one place of the queue, draining goes on in the background, and only a complete copy replaces the last.
 */
export class Checkpointer {
  readonly #core: Core
  readonly #options: CheckpointOptions
  readonly #maxLogBytes: number
  readonly #intervalMs: number
  #running: Promise<boolean> | undefined
  #notBefore = 0
  #lastAt = performance.now()
  #savedAt = performance.now()
  #tools: Tools | undefined
  /** The last one relied on work that may not have been done. */
  #isWary = false

  constructor(core: Core, options: CheckpointOptions) {
    this.#core = core
    this.#options = options
    this.#maxLogBytes = options.maxLogBytes ?? 64 * 2 ** 20
    this.#intervalMs = options.intervalMs ?? 1000
  }

  /** Called whenever the log grew: begins a checkpoint when it is time. */
  consider(): void {
    if (this.#running !== undefined) return
    const now = performance.now()
    const isDue = now - this.#lastAt > this.#intervalMs || this.#core.log.bytes > this.#maxLogBytes
    if (!isDue || now < this.#notBefore) return
    // A failure here is a loss, and the recovery knows of it.
    this.run().catch(() => {})
  }

  /**
   * Waits for a checkpoint when one is long overdue, as when devices are lost faster than they can be saved. Whoever
   * waits for the device waits for this too: so the log, and what a replay takes, stay bounded.
   */
  async relieve(): Promise<void> {
    const sinceSaved = performance.now() - this.#savedAt
    const isOverdue = sinceSaved > 4 * this.#intervalMs || this.#core.log.bytes > 2 * this.#maxLogBytes
    if (!isOverdue || this.#core.log.length === 0) return
    const over = (): boolean => true
    const running = this.run().then(over, over)
    // Nobody waits for a copy that is held.
    while (!isHeld(this.#options.bytesPerSecond)) {
      if (await Promise.race([running, systemClock.sleep(askAgainMs).then(() => false)])) return
    }
  }

  /** Takes a checkpoint now, or joins the one under way. False when it came to nothing: the device went first. */
  run(): Promise<boolean> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #run(): Promise<boolean> {
    const core = this.#core
    await core.ready()
    this.#lastAt = performance.now()
    if (holdsPendingQueries(core)) return false
    const begun = performance.now()
    const frozen = this.#freeze()
    const pauseMs = performance.now() - begun
    const drained = await this.#drain(frozen)
    const failure = await frozen.failure
    // A device that was lost in between says nothing, and what it gave counts for nothing.
    if (frozen.incarnation !== core.incarnation || !core.isLive) return false
    const drainMs = performance.now() - begun - pauseMs
    this.#notBefore = performance.now() + restFactor * drainMs
    if (drained === undefined || failure !== null) {
      this.#fail(frozen)
      this.#notBefore = performance.now() + failurePauseMs
      core.emit({ type: 'checkpoint-failed', message: failure?.message ?? 'the copy could not be read' })
      return false
    }
    this.#isWary = drained.some(({ bytes }) => bytes === undefined) && !this.#isTrusted(frozen)
    if (this.#isWary) {
      this.#fail(frozen)
      return false
    }
    commit(core, frozen, drained)
    this.#savedAt = performance.now()
    core.stats.checkpoints += 1
    const bytes = drained.reduce((sum, moved) => sum + (moved.bytes?.byteLength ?? 0), 0)
    core.emit({ type: 'checkpointed', bytes, pauseMs, drainMs })
    return true
  }

  /** The last checkpoint stays, and what has changed since stays to be saved. */
  #fail(frozen: Frozen): void {
    putBack(frozen)
    // They know of content that nobody got.
    if (this.#tools !== undefined) this.#tools.digests = new WeakMap()
  }

  /** Whether the work since the freeze was done as it was given: what the device refused has replaced nothing. */
  #isTrusted({ errorsHeard }: Frozen): boolean {
    return errorsHeard === this.#core.errorsHeard && !this.#core.scopes.isBusy
  }

  #freeze(): Frozen {
    const core = this.#core
    const { incarnation } = core
    const planned = planCheckpoint(core)
    const cutSeq = core.nextSeq()
    const common = { ...planned, cutSeq, errorsHeard: core.errorsHeard, incarnation }
    if (planned.segments.length === 0) {
      return { ...common, copies: [], found: new Map(), failure: Promise.resolve(null) }
    }
    const { device } = incarnation
    for (const filter of ['out-of-memory', 'validation'] as const) device.pushErrorScope(filter)
    try {
      return { ...common, ...this.#copy(planned, incarnation), failure: failureOf(device) }
    } catch (error) {
      void failureOf(device)
      putBack(planned)
      throw error
    }
  }

  /** Copies what was planned, on the device and in one submit. */
  #copy({ segments }: Plan, incarnation: Incarnation): Pick<Frozen, 'copies' | 'found'> {
    const { device, mover } = incarnation
    const tools = this.#toolsOf(incarnation)
    const usage = BufferUsage.CopySrc | BufferUsage.CopyDst | BufferUsage.Storage
    const encoder = device.createCommandEncoder({ label: 'egpu checkpoint' })
    const found = new Map<Piece, Found>()
    const copies = segments.map(({ pieces, byteLength }) => {
      const copy = device.createBuffer({ label: 'egpu checkpoint', size: byteLength, usage })
      for (const piece of pieces) {
        if ('texture' in piece) mover.save(encoder, piece.texture.real, piece.image, copy, piece.at)
        else encoder.copyBufferToBuffer(piece.buffer.real, piece.start, copy, piece.at, piece.byteLength)
      }
      for (const piece of pieces) {
        if (tools.finder === undefined || 'texture' in piece || !isCompared(piece.buffer)) continue
        const digests = tools.digests.get(piece.buffer) ?? tools.finder.createDigests(piece.buffer.size)
        tools.digests.set(piece.buffer, digests)
        const copied = { buffer: copy, at: piece.at, offset: piece.start, byteLength: piece.byteLength }
        found.set(piece, tools.finder.note(encoder, digests, copied))
      }
      return copy
    })
    device.queue.submit([encoder.finish()])
    mover.release()
    return { copies, found }
  }

  #toolsOf(incarnation: Incarnation): Tools {
    if (this.#tools?.incarnation !== incarnation) {
      const { guard } = incarnation
      // Where there is no cable, moving is faster than comparing.
      const finder = incarnation.isSoftware ? undefined : new ChangeFinder(guard)
      this.#tools = { incarnation, ring: new Ring(guard, 'read', this.#options), finder, digests: new WeakMap() }
    }
    return this.#tools
  }

  /** The frozen bytes on the host; `undefined` when the device was lost before they all were. */
  async #drain(frozen: Frozen): Promise<readonly Moved[] | undefined> {
    const { incarnation, segments, copies, found } = frozen
    const { guard } = incarnation
    const { ring } = this.#toolsOf(incarnation)
    const drained: Moved[] = []
    try {
      const changed = new Map(
        await Promise.all([...found].map(async ([piece, ask]) => [piece, await ask(undefined)] as const)),
      )
      for (const [index, { pieces }] of segments.entries()) {
        // What is drawn anew each frame is, by the time the rest is drained, as good as gone.
        if (!this.#isWary && this.#isTrusted(frozen) && pieces.every(isReplacedSince)) {
          drained.push(...pieces.map((piece): Moved => ({ piece, extent: [0, 0], bytes: undefined })))
          continue
        }
        const wanted = pieces.flatMap((piece) =>
          wantedOf(piece, changed.get(piece)).map((extent) => ({ piece, extent })),
        )
        const spans = wanted.map(({ piece, extent: [start, end] }) => ({
          offset: piece.at + start - ('texture' in piece ? 0 : piece.start),
          byteLength: Math.ceil((end - start) / 4) * 4,
        }))
        const host = new Uint8Array(spans.reduce((sum, { byteLength }) => sum + byteLength, 0))
        await drainSpans(guard, ring, copies[index] as GPUBuffer, spans, host, undefined)
        let at = 0
        for (const [nth, { piece, extent }] of wanted.entries()) {
          drained.push({ piece, extent, bytes: host.subarray(at, at + extent[1] - extent[0]) })
          at += (spans[nth] as Span).byteLength
        }
      }
      return (await incarnation.isAliveAfterWork()) ? drained : undefined
    } catch {
      // Gives the loss, if it is one, the time to be heard.
      await incarnation.isAliveAfterWork().catch(() => false)
      return undefined
    } finally {
      for (const copy of copies) copy.destroy()
    }
  }
}

/** After the device refused a checkpoint, which takes memory on it, the next attempt has to wait. */
const failurePauseMs = 10_000

/** Ends the two scopes around a freeze. A device that was lost in between says nothing. */
async function failureOf(device: GPUDevice): Promise<GPUError | null> {
  try {
    const [invalid, noMemory] = await Promise.all([device.popErrorScope(), device.popErrorScope()])
    return noMemory ?? invalid
  } catch {
    return null
  }
}

/** What of a piece has to be moved. */
function wantedOf(piece: Piece, changed: readonly Span[] | undefined): readonly Extent[] {
  if ('texture' in piece) return [[0, piece.byteLength]]
  if (changed === undefined) return piece.dirty
  const found = changed.map(({ offset, byteLength }): Extent => [
    piece.start + offset,
    piece.start + offset + byteLength,
  ])
  return overlap(piece.dirty, found)
}

function commit(core: Core, { cutSeq, unsaved }: Frozen, drained: readonly Moved[]): void {
  const images = new Map<TextureNode, Uint8Array[] | undefined>()
  for (const { piece, extent, bytes } of drained) {
    if ('texture' in piece) {
      const known = images.get(piece.texture)
      if (bytes === undefined) images.set(piece.texture, undefined)
      else if (known === undefined) images.set(piece.texture, [bytes.slice()])
      else known.push(bytes.slice())
      continue
    }
    const { buffer } = piece
    const [start, end] = extent
    if (end - start === buffer.size) buffer.saved = (bytes as Uint8Array).slice()
    else {
      buffer.saved ??= new Uint8Array(buffer.copyableSize)
      buffer.saved.set(bytes as Uint8Array, start)
    }
  }
  for (const [texture, contents] of images) {
    texture.saved = contents
    texture.isUnsaved = false
  }
  for (const texture of unsaved) texture.isUnsaved = true
  core.log.cut(cutSeq)
}

/** Results of a query can be read only on the device, so the log must reach back to where they were made. */
function holdsPendingQueries(core: Core): boolean {
  for (const reference of core.queries) {
    const query = reference.deref()
    if (query === undefined) core.queries.delete(reference)
    else if (query.isPending) return true
  }
  return false
}
