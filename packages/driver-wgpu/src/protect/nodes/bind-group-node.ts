import { BufferUsage, TextureUsage } from '../../flags.ts'
import type { Core } from '../core.ts'
import { BufferNode } from './buffer-node.ts'
import { RecipeNode } from './recipe.ts'
import type { Recipe } from './recipe.ts'
import { textureOf } from './texture-of.ts'
import type { TextureNode } from './texture-node.ts'

/** Something a shader may write through a bind group. */
export type BindingWrite =
  | { readonly buffer: BufferNode; readonly start: number; readonly end: number }
  | { readonly texture: TextureNode }

interface CapturedEntry {
  readonly binding: number
  readonly resource: unknown
}

interface CapturedLayoutEntry {
  readonly binding: number
  readonly buffer?: { readonly type?: GPUBufferBindingType; readonly hasDynamicOffset?: boolean }
  readonly storageTexture?: { readonly access?: GPUStorageTextureAccess }
}

/**
 * A bind group, and what work that uses it may write. An explicit layout says which bindings are written; with an
 * `auto` layout everything counts that could be bound for writing, which is never too little.
 */
export class BindGroupNode extends RecipeNode<GPUBindGroup> {
  readonly writes: readonly BindingWrite[]
  /** Buffers it uses, for the rule that none may be mapped when it is submitted. */
  readonly buffers: readonly BufferNode[]
  readonly textures: readonly TextureNode[]
  /** Binds a video frame, which is gone when the work has to be done again. */
  readonly hasExternal: boolean

  constructor(core: Core, recipe: Recipe, real: GPUBindGroup) {
    super(core, recipe, real)
    const { layout, entries = [] } = (recipe.args[0] ?? {}) as { layout?: unknown; entries?: readonly CapturedEntry[] }
    const declared = declaredEntries(layout)
    const writes: BindingWrite[] = []
    const buffers: BufferNode[] = []
    const textures: TextureNode[] = []
    for (const { binding, resource } of entries) {
      const rule = declared?.find((entry) => entry.binding === binding)
      const bound = boundBuffer(resource, rule?.buffer?.hasDynamicOffset ?? !isAuto(layout))
      if (bound !== undefined) {
        buffers.push(bound.buffer)
        const type = rule?.buffer?.type ?? (rule === undefined ? 'storage' : 'uniform')
        if (type === 'storage' && (bound.buffer.usage & BufferUsage.Storage) !== 0) writes.push(bound)
        continue
      }
      const texture = textureOf(resource)
      if (texture === undefined) continue
      textures.push(texture)
      const isStorage =
        rule === undefined || (rule.storageTexture !== undefined && rule.storageTexture.access !== 'read-only')
      if (isStorage && (texture.usage & TextureUsage.StorageBinding) !== 0) writes.push({ texture })
    }
    this.writes = writes
    this.buffers = buffers
    this.textures = textures
    this.hasExternal = entries.some(({ resource }) => isExternal(resource))
  }
}

function isExternal(resource: unknown): boolean {
  return Object.prototype.toString.call(resource) === '[object GPUExternalTexture]'
}

/** Entries of a layout that was made by `createBindGroupLayout`; the layout of an `auto` pipeline does not tell. */
function declaredEntries(layout: unknown): readonly CapturedLayoutEntry[] | undefined {
  if (!(layout instanceof RecipeNode) || layout.recipe.method !== 'createBindGroupLayout') return undefined
  return (layout.recipe.args[0] as { readonly entries?: readonly CapturedLayoutEntry[] }).entries
}

/** Bindings of an `auto` layout never have dynamic offsets. */
function isAuto(layout: unknown): boolean {
  if (!(layout instanceof RecipeNode) || layout.recipe.method !== 'getBindGroupLayout') return false
  const pipeline = layout.recipe.owner
  if (!(pipeline instanceof RecipeNode)) return false
  return (pipeline.recipe.args[0] as { readonly layout?: unknown } | undefined)?.layout === 'auto'
}

function boundBuffer(
  resource: unknown,
  mayMove: boolean,
): { buffer: BufferNode; start: number; end: number } | undefined {
  if (resource instanceof BufferNode) return { buffer: resource, start: 0, end: resource.size }
  const { buffer, offset = 0, size } = (resource ?? {}) as { buffer?: unknown; offset?: number; size?: number }
  if (!(buffer instanceof BufferNode)) return undefined
  const end = size === undefined || mayMove ? buffer.size : offset + size
  return { buffer, start: offset, end }
}
