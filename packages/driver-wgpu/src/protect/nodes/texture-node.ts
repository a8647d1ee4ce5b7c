import { TextureUsage } from '../../flags.ts'
import type { Core } from '../core.ts'
import { Node } from './node.ts'
import { copyableLayouts } from './texture-format.ts'
import type { BlockLayout } from './texture-format.ts'

/** One mip level of one aspect, as it lies in a copy. */
export interface Level {
  readonly mipLevel: number
  readonly layout: BlockLayout
  readonly bytesPerRow: number
  readonly rows: number
  readonly extent: readonly [width: number, height: number, depth: number]
  readonly byteLength: number
}

/** Rows of a copy between texture and buffer begin at multiples of this (specification, "bytesPerRow"). */
const rowAlignment = 256

/** A texture. On the device it can always be copied from and to. */
export class TextureNode extends Node<GPUTexture> {
  readonly descriptor: GPUTextureDescriptor
  readonly usage: number
  isDestroyed = false
  /** The log still has to go past the destruction: until then it must live again on the next device. */
  isDestroyLogged = false
  /** Written since the last checkpoint. */
  isDirty = false
  /** Its content at the last checkpoint, level by level; `undefined` is zeros. */
  saved: readonly Uint8Array[] | undefined
  /** Its content at the last checkpoint could not be saved, and has not been replaced since. */
  isUnsaved = false
  /** Such content was used: after a loss now, results would not be what they were. */
  isUnsavedRead = false
  /** Belongs to a canvas, for one frame. A replay draws on a stand-in that nobody sees; the next frame is real again. */
  readonly isBorrowed: boolean
  #twin: GPUTexture | undefined

  /** `existing` is the texture of a canvas. */
  constructor(core: Core, descriptor: GPUTextureDescriptor, existing?: GPUTexture) {
    super(core, existing ?? core.device.createTexture(withCopies(descriptor)), descriptor.label ?? '')
    this.descriptor = descriptor
    this.usage = descriptor.usage
    this.isBorrowed = existing !== undefined
    core.register(this)
  }

  build(device: GPUDevice): GPUTexture {
    this.#twin = undefined
    const real = device.createTexture(withCopies(this.descriptor))
    if (this.isDestroyed && !this.isDestroyLogged) real.destroy()
    return real
  }

  realFor(usage: number): GPUTexture {
    if ((this.usage & usage) !== 0) return this.real
    this.#twin ??= this.core.device.createTexture(this.descriptor)
    return this.#twin
  }

  markWritten(isReplaced: boolean): void {
    this.isDirty = true
    const hasOneImage = this.real.mipLevelCount === 1 && this.real.depthOrArrayLayers === 1
    if (isReplaced && hasOneImage) this.isUnsaved = false
  }

  markRead(): void {
    if (this.isUnsaved) this.isUnsavedRead = true
  }

  /** What a copy of the whole content consists of; empty when copies cannot bring it back. */
  levels(): readonly Level[] {
    const { real } = this
    if (real.sampleCount > 1 || (real.usage & TextureUsage.CopySrc) === 0) return []
    return copyableLayouts(real.format).flatMap((layout) =>
      Array.from({ length: real.mipLevelCount }, (_, mipLevel) => levelOf(real, mipLevel, layout)),
    )
  }
}

function levelOf(real: GPUTexture, mipLevel: number, layout: BlockLayout): Level {
  const { blockWidth, blockHeight, blockBytes } = layout
  const at = (size: number): number => Math.max(1, size >> mipLevel)
  const columns = Math.ceil(at(real.width) / blockWidth)
  const rows = Math.ceil(at(real.height) / blockHeight)
  const depth = real.dimension === '3d' ? at(real.depthOrArrayLayers) : real.depthOrArrayLayers
  const bytesPerRow = Math.ceil((columns * blockBytes) / rowAlignment) * rowAlignment
  return {
    mipLevel,
    layout,
    bytesPerRow,
    rows,
    extent: [columns * blockWidth, rows * blockHeight, depth],
    byteLength: bytesPerRow * rows * depth,
  }
}

/** Transient attachments never have content outside a pass, and no copies. */
function withCopies(descriptor: GPUTextureDescriptor): GPUTextureDescriptor {
  const { usage } = descriptor
  if (!Number.isInteger(usage) || usage === 0 || (usage & ~TextureUsage.Copyable) !== 0) return descriptor
  return { ...descriptor, usage: usage | TextureUsage.CopySrc | TextureUsage.CopyDst }
}
