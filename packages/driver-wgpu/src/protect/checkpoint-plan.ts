import { comparedBytes } from '../checkpoint/change-finder.ts'
import type { Core } from './core.ts'
import { BufferNode } from './nodes/buffer-node.ts'
import { Ranges } from './nodes/ranges.ts'
import { imageBytes } from './nodes/texture-images.ts'
import type { Image } from './nodes/texture-images.ts'
import { TextureNode } from './nodes/texture-node.ts'

/** Bytes of a buffer, or of an image, as `start` and `end`. */
export type Extent = readonly [start: number, end: number]

/** A part of a buffer, with what of it may have changed. */
interface BufferPart {
  readonly buffer: BufferNode
  readonly start: number
  readonly end: number
  readonly dirty: readonly Extent[]
}

interface TexturePart {
  readonly texture: TextureNode
  readonly image: Image
}

/** A piece of content and its place in one of the frozen copies. */
export type Piece = (BufferPart | TexturePart) & { readonly at: number; readonly byteLength: number }

/** What is copied and drained in one go. */
export interface Segment {
  readonly pieces: Piece[]
  byteLength: number
}

export interface Plan {
  readonly segments: readonly Segment[]
  /** Textures whose content nobody can get at. */
  readonly unsaved: readonly TextureNode[]
}

/** A segment holds no more than this unless it is a single piece that cannot be divided. */
const segmentBytes = imageBytes

/** Places in a copy: a multiple of every block size, and of the alignment of storage bindings. */
const pieceAlignment = 256

/** What is smaller is moved faster than compared. */
const worthComparing = 16 * comparedBytes

/** Whether copies of the buffer are compared with the ones before: always the same for the same buffer. */
export function isCompared({ size }: BufferNode): boolean {
  return size >= worthComparing
}

/**
 * What may have changed since the last checkpoint. It counts as unchanged from here on. Textures that work may replace
 * before it uses them come last, each with a segment of its own.
 */
export function planCheckpoint(core: Core): Plan {
  const segments: Segment[] = []
  const replaceable: Segment[] = []
  const unsaved: TextureNode[] = []
  for (const node of core.registry.all()) {
    if (node instanceof BufferNode) {
      if (!node.isDestroyed && !node.isRefused) for (const part of partsOf(node)) place(segments, part)
      node.dirty.clear()
    } else if (node instanceof TextureNode) {
      node.firstUse = undefined
      if (!node.isDirty) continue
      node.isDirty = false
      if (node.isDestroyed || node.isBorrowed || !node.hasContent) continue
      const images = node.images()
      if (images.length === 0) unsaved.push(node)
      for (const image of images) {
        if (node.hasOneImage) place(replaceable, { texture: node, image }, true)
        else place(segments, { texture: node, image })
      }
    }
  }
  return { segments: [...segments, ...replaceable], unsaved }
}

/** What was planned was not saved: it still has to be. */
export function putBack({ segments, unsaved }: Plan): void {
  for (const piece of segments.flatMap(({ pieces }) => pieces)) {
    if ('texture' in piece) piece.texture.isDirty = true
    else for (const [start, end] of piece.dirty) piece.buffer.dirty.add(start, end)
  }
  for (const texture of unsaved) texture.isDirty = true
}

/** Work since the freeze has replaced it, so that a replay from there needs none of it. */
export function isReplacedSince(piece: Piece): boolean {
  return 'texture' in piece && piece.texture.firstUse === 'replaced'
}

/** Where both are. */
export function overlap(some: readonly Extent[], others: readonly Extent[]): readonly Extent[] {
  return some.flatMap(([start, end]) =>
    others.map(([from, to]): Extent => [Math.max(start, from), Math.min(end, to)]).filter(([from, to]) => from < to),
  )
}

/** Of a buffer that is compared, whole chunks are copied; else just what may have changed. */
function partsOf(buffer: BufferNode): readonly BufferPart[] {
  const windows = new Ranges()
  const grain = isCompared(buffer) ? comparedBytes : 1
  for (const [start, end] of buffer.dirty) {
    windows.add(start - (start % grain), Math.min(buffer.copyableSize, Math.ceil(end / grain) * grain))
  }
  const parts: BufferPart[] = []
  for (const [begin, last] of windows) {
    for (let start = begin; start < last; start += segmentBytes) {
      const end = Math.min(last, start + segmentBytes)
      parts.push({ buffer, start, end, dirty: overlap([[start, end]], [...buffer.dirty]) })
    }
  }
  return parts
}

function place(segments: Segment[], part: BufferPart | TexturePart, isAlone: boolean = false): void {
  const byteLength = 'texture' in part ? part.image.byteLength : part.end - part.start
  const words = Math.ceil(byteLength / 4) * 4
  const open = isAlone ? undefined : segments.at(-1)
  const at = open === undefined ? 0 : Math.ceil(open.byteLength / pieceAlignment) * pieceAlignment
  if (open !== undefined && at + words <= segmentBytes) {
    open.pieces.push({ ...part, at, byteLength })
    open.byteLength = at + words
  } else segments.push({ pieces: [{ ...part, at: 0, byteLength }], byteLength: words })
}
