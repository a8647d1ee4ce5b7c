import { drain, Ring } from '../checkpoint/ring.ts'
import { BufferUsage } from '../flags.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import { BufferNode } from './nodes/buffer-node.ts'
import { TextureNode } from './nodes/texture-node.ts'
import { imageBytes } from './nodes/texture-images.ts'
import type { Image } from './nodes/texture-images.ts'
import type { CheckpointOptions } from './options.ts'

/** A piece of changed content and its place in one of the frozen copies. */
type Piece = (
  | { readonly buffer: BufferNode; readonly start: number; readonly end: number }
  | { readonly texture: TextureNode; readonly image: Image }
) & { readonly at: number; readonly byteLength: number }

/** What is copied and drained in one go. */
interface Segment {
  readonly pieces: Piece[]
  byteLength: number
}

interface Plan {
  readonly segments: readonly Segment[]
  /** Textures whose content nobody can get at. */
  readonly unsaved: readonly TextureNode[]
  readonly byteLength: number
}

interface Frozen extends Plan {
  readonly cutSeq: number
  readonly incarnation: Incarnation
  readonly copies: readonly GPUBuffer[]
  /** Why it holds nothing: the copies did not fit next to everything else, for example. */
  readonly failure: Promise<GPUError | null>
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
  #ring: { readonly incarnation: Incarnation; readonly ring: Ring } | undefined

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
    if (isOverdue && this.#core.log.length > 0) await this.run().catch(() => false)
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
    if (frozen.incarnation !== core.incarnation || !core.isLive) return false
    const failure = await frozen.failure
    const drainMs = performance.now() - begun - pauseMs
    this.#notBefore = performance.now() + restFactor * drainMs
    if (drained === undefined || failure !== null) {
      // A device that was lost in between says nothing, and what it gave counts for nothing.
      if (frozen.incarnation === core.incarnation && core.isLive) this.#fail(frozen, failure)
      return false
    }
    commit(core, frozen, drained)
    this.#savedAt = performance.now()
    core.stats.checkpoints += 1
    const bytes = drained.reduce((sum, content) => sum + (content?.byteLength ?? 0), 0)
    core.emit({ type: 'checkpointed', bytes, pauseMs, drainMs })
    return true
  }

  /** The last checkpoint stays, and what has changed since stays to be saved. */
  #fail({ segments }: Frozen, failure: GPUError | null): void {
    for (const piece of segments.flatMap(({ pieces }) => pieces)) {
      if ('buffer' in piece) piece.buffer.dirty.add(piece.start, piece.end)
      else piece.texture.isDirty = true
    }
    this.#notBefore = performance.now() + failurePauseMs
    this.#core.emit({ type: 'checkpoint-failed', message: failure?.message ?? 'the copy could not be read' })
  }

  #freeze(): Frozen {
    const core = this.#core
    const { incarnation } = core
    const { device, mover } = incarnation
    const planned = plan(core)
    const cutSeq = core.nextSeq()
    if (planned.byteLength === 0) return { ...planned, cutSeq, incarnation, copies: [], failure: Promise.resolve(null) }
    for (const filter of ['out-of-memory', 'validation'] as const) device.pushErrorScope(filter)
    const usage = BufferUsage.CopySrc | BufferUsage.CopyDst | BufferUsage.Storage
    const encoder = device.createCommandEncoder({ label: 'egpu checkpoint' })
    const copies = planned.segments.map(({ pieces, byteLength }) => {
      const copy = device.createBuffer({ label: 'egpu checkpoint', size: byteLength, usage })
      for (const piece of pieces) {
        if ('texture' in piece) mover.save(encoder, piece.texture.real, piece.image, copy, piece.at)
        else encoder.copyBufferToBuffer(piece.buffer.real, piece.start, copy, piece.at, piece.byteLength)
      }
      return copy
    })
    device.queue.submit([encoder.finish()])
    mover.release()
    const errors = Promise.all([device.popErrorScope(), device.popErrorScope()])
    const failure = errors.then(
      ([invalid, noMemory]) => noMemory ?? invalid,
      () => null,
    )
    return { ...planned, cutSeq, incarnation, copies, failure }
  }

  /**
   * The frozen bytes on the host, segment by segment; `undefined` when the device was lost before they all were. A
   * segment that meanwhile turned out not to be needed has none.
   */
  async #drain({ incarnation, segments, copies }: Frozen): Promise<readonly (Uint8Array | undefined)[] | undefined> {
    if (this.#ring?.incarnation !== incarnation) {
      this.#ring = { incarnation, ring: new Ring(incarnation.guard, 'read', this.#options) }
    }
    const { ring } = this.#ring
    const drained: (Uint8Array | undefined)[] = []
    try {
      for (const [index, { pieces, byteLength }] of segments.entries()) {
        // What is drawn anew each frame is, by the time the rest is drained, as good as gone.
        if (pieces.every(isReplacedSince)) {
          drained.push(undefined)
          continue
        }
        const host = new Uint8Array(byteLength)
        let at = 0
        for await (const chunk of drain(incarnation.guard, ring, copies[index] as GPUBuffer, undefined)) {
          host.set(chunk, at)
          at += chunk.byteLength
        }
        drained.push(host)
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

/** A segment holds no more than this unless it is a single piece that cannot be divided. */
const segmentBytes = imageBytes

/** Offsets of textures in a copy: a multiple of every block size, and of the alignment of storage bindings. */
const pieceAlignment = 256

/**
 * What changed since the last checkpoint. It counts as unchanged from here on. Textures that work may replace before
 * it uses them come last, each with a segment of its own.
 */
function plan(core: Core): Plan {
  const segments: Segment[] = []
  const replaceable: Segment[] = []
  const unsaved: TextureNode[] = []
  const place = (content: { buffer: BufferNode; start: number; end: number } | TexturePart, size: number): void => {
    const isReplaceable = 'texture' in content && content.texture.hasOneImage
    const open = isReplaceable ? undefined : segments.at(-1)
    const at = open === undefined ? 0 : Math.ceil(open.byteLength / pieceAlignment) * pieceAlignment
    const end = at + Math.ceil(size / 4) * 4
    const piece = { ...content, byteLength: size }
    if (open !== undefined && end <= segmentBytes) {
      open.pieces.push({ ...piece, at })
      open.byteLength = end
    } else {
      const fresh = { pieces: [{ ...piece, at: 0 }], byteLength: Math.ceil(size / 4) * 4 }
      if (isReplaceable) replaceable.push(fresh)
      else segments.push(fresh)
    }
  }
  for (const node of core.registry.all()) {
    if (node instanceof BufferNode) {
      if (!node.isDestroyed && !node.isRefused) {
        for (const [start, end] of node.dirty) {
          for (let from = start; from < end; from += segmentBytes) {
            const to = Math.min(end, from + segmentBytes)
            place({ buffer: node, start: from, end: to }, to - from)
          }
        }
      }
      node.dirty.clear()
    } else if (node instanceof TextureNode) {
      node.firstUse = undefined
      if (!node.isDirty) continue
      node.isDirty = false
      if (node.isDestroyed || node.isBorrowed || !node.hasContent) continue
      const images = node.images()
      if (images.length === 0) unsaved.push(node)
      for (const image of images) place({ texture: node, image }, image.byteLength)
    }
  }
  const all = [...segments, ...replaceable]
  return { segments: all, unsaved, byteLength: all.reduce((sum, { byteLength }) => sum + byteLength, 0) }
}

interface TexturePart {
  readonly texture: TextureNode
  readonly image: Image
}

/** Work since the freeze has replaced it, so that a replay from there needs none of it. */
function isReplacedSince(piece: Piece): boolean {
  return 'texture' in piece && piece.texture.firstUse === 'replaced'
}

function commit(core: Core, { cutSeq, segments, unsaved }: Frozen, drained: readonly (Uint8Array | undefined)[]): void {
  const images = new Map<TextureNode, Uint8Array[] | undefined>()
  for (const [index, { pieces }] of segments.entries()) {
    const bytes = drained[index]
    for (const piece of pieces) {
      if ('texture' in piece) {
        const content = bytes?.slice(piece.at, piece.at + piece.byteLength)
        const known = images.get(piece.texture)
        if (content === undefined) images.set(piece.texture, undefined)
        else if (known === undefined) images.set(piece.texture, [content])
        else known.push(content)
        continue
      }
      const { buffer, start, end, at } = piece
      const content = (bytes as Uint8Array).subarray(at, at + end - start)
      if (end - start === buffer.size) buffer.saved = content.slice()
      else {
        buffer.saved ??= new Uint8Array(buffer.copyableSize)
        buffer.saved.set(content, start)
      }
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
    else if (query.isPending && !query.isDestroyed) return true
  }
  return false
}
