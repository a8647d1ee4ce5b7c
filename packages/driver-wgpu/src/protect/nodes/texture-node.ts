import { TextureUsage } from '../../flags.ts'
import { asInteger } from '../capture.ts'
import type { Core } from '../core.ts'
import { quietly } from '../quietly.ts'
import { Node } from './node.ts'
import { planesOf, storedFormat } from './texture-format.ts'
import { imagesOf } from './texture-images.ts'
import type { Image } from './texture-images.ts'

/** A texture. On the device its content can always be got at, whatever the application declared. */
export class TextureNode extends Node<GPUTexture> {
  readonly descriptor: GPUTextureDescriptor
  readonly usage: number
  isDestroyed = false
  /** The log still has to go past the destruction: until then it must live again on the next device. */
  isDestroyLogged = false
  /** Written since the last checkpoint. */
  isDirty = false
  /** Its content at the last checkpoint, image by image; `undefined` is zeros, or what is replaced before it is used. */
  saved: readonly Uint8Array[] | undefined
  /** What work did first with the content as it was at the last freeze. */
  firstUse: 'replaced' | 'used' | undefined
  /** Its content at the last checkpoint could not be saved, and has not been replaced since. */
  isUnsaved = false
  /** Such content was used: after a loss now, results would not be what they were. */
  isUnsavedRead = false
  /** Belongs to a canvas, for one frame. A replay draws on a stand-in that nobody sees; the next frame is real again. */
  readonly isBorrowed: boolean
  #twin: GPUTexture | undefined

  /** `existing` is the texture of a canvas. */
  constructor(core: Core, descriptor: GPUTextureDescriptor, existing?: GPUTexture) {
    super(core, existing ?? core.device.createTexture(withAccess(descriptor)), descriptor.label ?? '')
    this.descriptor = descriptor
    this.usage = descriptor.usage
    this.isBorrowed = existing !== undefined
    core.register(this)
  }

  build(device: GPUDevice): GPUTexture {
    this.#twin = undefined
    const real = device.createTexture(withAccess(this.descriptor))
    if (this.isDestroyed && !this.isDestroyLogged) real.destroy()
    return real
  }

  realFor(usage: number): GPUTexture {
    return (this.usage & usage) !== 0 ? this.real : this.twin()
  }

  /** A texture exactly as declared, to get the device's own errors from. */
  twin(): GPUTexture {
    const { device } = this.core
    // What is wrong with the descriptor was told when the texture was made.
    this.#twin ??= quietly(device, () => device.createTexture(this.descriptor))
    return this.#twin
  }

  /** Transient attachments have no content outside a pass. */
  get hasContent(): boolean {
    return (this.real.usage & ~TextureUsage.Lasting) === 0
  }

  markWritten(isReplaced: boolean): void {
    this.isDirty = true
    if (isReplaced && this.hasOneImage) {
      this.firstUse ??= 'replaced'
      this.isUnsaved = false
    } else this.firstUse ??= 'used'
  }

  markRead(): void {
    this.firstUse ??= 'used'
    if (this.isUnsaved) this.isUnsavedRead = true
  }

  /** All of its content is one image: what replaces that replaces everything. */
  get hasOneImage(): boolean {
    return this.real.mipLevelCount === 1 && this.real.depthOrArrayLayers === 1
  }

  /** What all of its content consists of; empty when it cannot be kept. */
  images(): readonly Image[] {
    return imagesOf(this.real)
  }
}

/**
 * Adds the usages without which the content could not be saved or brought back. None of them makes a descriptor valid
 * that was not: copies and sampling go with every format, and so do attachments with every depth format.
 */
function withAccess(descriptor: GPUTextureDescriptor): GPUTextureDescriptor {
  const { usage, format, viewFormats = [] } = descriptor
  const sampleCount = asInteger(descriptor.sampleCount ?? 1)
  if (typeof format !== 'string' || typeof sampleCount !== 'number') return descriptor
  if (!Number.isInteger(usage) || usage === 0 || (usage & ~TextureUsage.Lasting) !== 0) return descriptor
  const ways = new Set(planesOf(format, sampleCount).map(({ by }) => by))
  let access = usage
  if (ways.has('copy')) access |= TextureUsage.CopySrc | TextureUsage.CopyDst
  if (!ways.has('shader')) return { ...descriptor, usage: access }
  access |= TextureUsage.TextureBinding
  if (sampleCount === 1) return { ...descriptor, usage: access | TextureUsage.RenderAttachment }
  const stored = storedFormat(format)
  return { ...descriptor, usage: access, viewFormats: stored === format ? viewFormats : [...viewFormats, stored] }
}
