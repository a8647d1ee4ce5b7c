import { capture, materialize } from '../capture.ts'
import type { Methods } from '../nodes/node.ts'
import { RecipeNode } from '../nodes/recipe.ts'
import type { TextureNode } from '../nodes/texture-node.ts'
import { Handle, wrap } from './handle.ts'
import { LabelledHandle, TextureViewHandle } from './plain-handles.ts'

export class TextureHandle extends LabelledHandle<TextureNode> {
  get width(): number {
    return Handle.node(this).real.width
  }

  get height(): number {
    return Handle.node(this).real.height
  }

  get depthOrArrayLayers(): number {
    return Handle.node(this).real.depthOrArrayLayers
  }

  get mipLevelCount(): number {
    return Handle.node(this).real.mipLevelCount
  }

  get sampleCount(): number {
    return Handle.node(this).real.sampleCount
  }

  get dimension(): GPUTextureDimension {
    return Handle.node(this).real.dimension
  }

  get format(): GPUTextureFormat {
    return Handle.node(this).real.format
  }

  get usage(): number {
    return Handle.node(this).usage
  }

  get textureBindingViewDimension(): unknown {
    return (Handle.node(this).real as { readonly textureBindingViewDimension?: unknown }).textureBindingViewDimension
  }

  createView(...args: readonly unknown[]): TextureViewHandle {
    const owner = Handle.node(this)
    const captured = withUsage(owner, args.map(capture))
    const { usage = 0 } = (captured[0] ?? {}) as GPUTextureViewDescriptor
    // More than was declared is refused, as if no more were there.
    const asked = (usage & ~owner.usage) === 0 ? owner.real : owner.twin()
    const real = (asked as unknown as Methods)['createView']?.(...captured.map(materialize))
    return wrap(
      TextureViewHandle,
      new RecipeNode(owner.core, { owner, method: 'createView', args: captured }, real as object),
    )
  }

  destroy(): void {
    const node = Handle.node(this)
    if (!node.isDestroyed) node.core.noteDestroyed(node)
    node.isDestroyed = true
    node.real.destroy()
  }
}

/** A view can be used as its texture was declared, not as it really is. */
function withUsage({ real, usage }: TextureNode, args: readonly unknown[]): readonly unknown[] {
  if (real.usage === usage) return args
  const given = args[0] as GPUTextureViewDescriptor | undefined
  return [{ ...given, usage: given?.usage || usage }]
}
