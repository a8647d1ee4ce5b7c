import { materialize } from '../capture.ts'
import type { BufferNode } from './buffer-node.ts'
import type { BindGroupNode } from './bind-group-node.ts'
import type { Methods } from './node.ts'
import { QueryNode } from './query-node.ts'
import type { TextureNode } from './texture-node.ts'

/**
 * Commands as they were encoded, with what they may write. Played back they give the same commands on another device.
 * Targets are the encoder (0) and the passes it opened (1, 2, …).
 */
export class Recording {
  /** `target, method, arguments, …` */
  readonly #steps: unknown[] = []
  readonly writtenTextures: Set<TextureNode> = new Set()
  /** Textures whose content is read, or kept, before anything replaced it. */
  readonly #readTextures: Set<TextureNode> = new Set()
  /** Textures whose content is replaced before it was read. */
  readonly #replacedTextures: Set<TextureNode> = new Set()
  readonly buffers: Set<BufferNode> = new Set()
  readonly #writes: Map<BufferNode, number[]> = new Map()
  readonly #groups: Set<BindGroupNode> = new Set()
  /** What becomes of the results of queries, in order. */
  readonly #queries: ((this: void) => void)[] = []
  #passes = 0
  #hasExternal = false

  /** Uses a video frame: it can be done only once. */
  get hasExternal(): boolean {
    return this.#hasExternal
  }

  get length(): number {
    return this.#steps.length / 3
  }

  add(target: number, method: string, args: readonly unknown[]): void {
    this.#steps.push(target, method, args)
  }

  /** Adds a step that opens a pass, and returns the pass's target number. */
  open(method: string, args: readonly unknown[]): number {
    this.add(0, method, args)
    this.#passes += 1
    return this.#passes
  }

  markBuffer(buffer: BufferNode, start: number, end: number): void {
    this.buffers.add(buffer)
    const ranges = this.#writes.get(buffer)
    if (ranges === undefined) this.#writes.set(buffer, [start, end])
    else if (ranges.at(-2) !== start || ranges.at(-1) !== end) ranges.push(start, end)
  }

  /** Work may use what the group binds, and write what it binds for writing. */
  markGroup(group: BindGroupNode): void {
    if (this.#groups.has(group)) return
    this.#groups.add(group)
    if (group.hasExternal) this.#hasExternal = true
    for (const write of group.writes) {
      if ('buffer' in write) this.markBuffer(write.buffer, write.start, write.end)
      else this.writtenTextures.add(write.texture)
    }
    for (const buffer of group.buffers) this.buffers.add(buffer)
    for (const texture of group.textures) this.markTextureRead(texture)
  }

  markQueryWritten(query: unknown, index: unknown): void {
    if (query instanceof QueryNode && typeof index === 'number') this.#queries.push(() => query.markWritten(index))
  }

  markQueriesResolved(query: unknown, first: number, count: number): void {
    if (query instanceof QueryNode) this.#queries.push(() => query.markResolved(first, count))
  }

  markTextureRead(texture: TextureNode): void {
    if (!this.#replacedTextures.has(texture)) this.#readTextures.add(texture)
  }

  markTextureReplaced(texture: TextureNode): void {
    this.writtenTextures.add(texture)
    if (!this.#readTextures.has(texture)) this.#replacedTextures.add(texture)
  }

  /** Takes over what commands write that are run from within these: a render bundle. */
  include(other: Recording): void {
    for (const [buffer, ranges] of other.#writes) {
      for (let at = 0; at < ranges.length; at += 2) {
        this.markBuffer(buffer, ranges[at] as number, ranges[at + 1] as number)
      }
    }
    for (const buffer of other.buffers) this.buffers.add(buffer)
    if (other.#hasExternal) this.#hasExternal = true
    for (const texture of other.writtenTextures) this.writtenTextures.add(texture)
    for (const texture of other.#readTextures) this.markTextureRead(texture)
  }

  /** The commands are about to run. */
  markAllWritten(): void {
    for (const [buffer, ranges] of this.#writes) {
      for (let at = 0; at < ranges.length; at += 2) buffer.markWritten(ranges[at] as number, ranges[at + 1] as number)
    }
    for (const texture of this.#readTextures) texture.markRead()
    for (const texture of this.writtenTextures) texture.markWritten(this.#replacedTextures.has(texture))
    for (const mark of this.#queries) mark()
  }

  play(encoder: object): void {
    const targets: Methods[] = [encoder as Methods]
    const steps = this.#steps
    for (let at = 0; at < steps.length; at += 3) {
      const target = targets[steps[at] as number] as Methods
      const result = target[steps[at + 1] as string]?.(...(steps[at + 2] as readonly unknown[]).map(materialize))
      if (typeof result === 'object' && result !== null) targets.push(result as Methods)
    }
  }
}
