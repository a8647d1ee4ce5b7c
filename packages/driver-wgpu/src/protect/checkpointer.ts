import { drain, Ring } from '../checkpoint/ring.ts'
import { BufferUsage } from '../flags.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import { BufferNode } from './nodes/buffer-node.ts'
import { TextureNode } from './nodes/texture-node.ts'
import type { Level } from './nodes/texture-node.ts'
import type { CheckpointOptions } from './options.ts'

/** A piece of changed content and its place in the frozen copy. */
type Piece =
  | { readonly buffer: BufferNode; readonly start: number; readonly end: number; readonly at: number }
  | { readonly texture: TextureNode; readonly level: Level; readonly at: number }

interface Frozen {
  readonly cutSeq: number
  readonly incarnation: Incarnation
  readonly pieces: readonly Piece[]
  readonly unsaved: readonly TextureNode[]
  readonly copy: GPUBuffer | undefined
  readonly byteLength: number
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
    const bytes = await this.#drain(frozen)
    if (bytes === undefined || frozen.incarnation !== core.incarnation || !core.isLive) return false
    commit(core, frozen, bytes)
    const drainMs = performance.now() - begun - pauseMs
    this.#notBefore = performance.now() + restFactor * drainMs
    this.#savedAt = performance.now()
    core.stats.checkpoints += 1
    core.emit({ type: 'checkpointed', bytes: frozen.byteLength, pauseMs, drainMs })
    return true
  }

  #freeze(): Frozen {
    const core = this.#core
    const { incarnation } = core
    const { pieces, unsaved, byteLength } = plan(core)
    const frozen = { cutSeq: core.nextSeq(), incarnation, pieces, unsaved, byteLength }
    if (byteLength === 0) return { ...frozen, copy: undefined }
    const { device } = incarnation
    const usage = BufferUsage.CopySrc | BufferUsage.CopyDst
    const copy = device.createBuffer({ label: 'egpu checkpoint', size: byteLength, usage })
    const encoder = device.createCommandEncoder({ label: 'egpu checkpoint' })
    for (const piece of pieces) {
      if ('buffer' in piece) {
        encoder.copyBufferToBuffer(piece.buffer.real, piece.start, copy, piece.at, piece.end - piece.start)
      } else {
        const { mipLevel, layout, bytesPerRow, rows, extent } = piece.level
        encoder.copyTextureToBuffer(
          { texture: piece.texture.real, mipLevel, aspect: layout.aspect },
          { buffer: copy, offset: piece.at, bytesPerRow, rowsPerImage: rows },
          extent,
        )
      }
    }
    device.queue.submit([encoder.finish()])
    return { ...frozen, copy }
  }

  /** The frozen bytes on the host; `undefined` when the device was lost before they all were. */
  async #drain({ incarnation, copy, byteLength }: Frozen): Promise<Uint8Array | undefined> {
    const host = new Uint8Array(byteLength)
    if (copy === undefined) return (await incarnation.isAliveAfterWork()) ? host : undefined
    if (this.#ring?.incarnation !== incarnation) {
      this.#ring = { incarnation, ring: new Ring(incarnation.guard, 'read', this.#options) }
    }
    let at = 0
    try {
      for await (const chunk of drain(incarnation.guard, this.#ring.ring, copy, undefined)) {
        host.set(chunk, at)
        at += chunk.byteLength
      }
      return host
    } catch {
      return undefined
    } finally {
      copy.destroy()
    }
  }
}

/** What changed since the last checkpoint, laid out one after the other. It counts as unchanged from here on. */
function plan(core: Core): { pieces: readonly Piece[]; unsaved: readonly TextureNode[]; byteLength: number } {
  const pieces: Piece[] = []
  const unsaved: TextureNode[] = []
  let byteLength = 0
  for (const node of core.registry.all()) {
    if (node instanceof BufferNode) {
      if (!node.isDestroyed && !node.isRefused) {
        for (const [start, end] of node.dirty) {
          pieces.push({ buffer: node, start, end, at: byteLength })
          byteLength += end - start
        }
      }
      node.dirty.clear()
    } else if (node instanceof TextureNode && node.isDirty) {
      node.isDirty = false
      if (node.isDestroyed || node.isBorrowed) continue
      const levels = node.levels()
      if (levels.length === 0) unsaved.push(node)
      for (const level of levels) {
        const at = Math.ceil(byteLength / textureAlignment) * textureAlignment
        pieces.push({ texture: node, level, at })
        byteLength = at + level.byteLength
      }
    }
  }
  return { pieces, unsaved, byteLength: Math.ceil(byteLength / 4) * 4 }
}

/** A multiple of every block size. */
const textureAlignment = 256

function commit(core: Core, { cutSeq, pieces, unsaved }: Frozen, bytes: Uint8Array): void {
  const levels = new Map<TextureNode, Uint8Array[]>()
  for (const piece of pieces) {
    if ('buffer' in piece) {
      const { buffer, start, end, at } = piece
      const content = bytes.subarray(at, at + end - start)
      if (end - start === buffer.size) buffer.saved = content.slice()
      else {
        buffer.saved ??= new Uint8Array(buffer.copyableSize)
        buffer.saved.set(content, start)
      }
    } else {
      const content = bytes.slice(piece.at, piece.at + piece.level.byteLength)
      const known = levels.get(piece.texture)
      if (known === undefined) levels.set(piece.texture, [content])
      else known.push(content)
    }
  }
  for (const [texture, contents] of levels) texture.saved = contents
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
