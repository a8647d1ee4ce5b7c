import { capture, materialize } from '../capture.ts'
import type { BindGroupNode } from '../nodes/bind-group-node.ts'
import type { BundleNode } from '../nodes/bundle-node.ts'
import type { CommandNode } from '../nodes/command-node.ts'
import type { Methods, Node } from '../nodes/node.ts'
import type { QueryNode } from '../nodes/query-node.ts'
import { RecipeNode } from '../nodes/recipe.ts'
import { Handle, wrap } from './handle.ts'

/** What every WebGPU object has. */
export class LabelledHandle<N extends Node = Node> extends Handle<N> {
  get label(): string {
    return Handle.node(this).label
  }

  set label(label: string) {
    const node = Handle.node(this)
    node.label = label
    ;(node.real as { label: string }).label = label
  }
}

export class SamplerHandle extends LabelledHandle<RecipeNode> {}
export class BindGroupLayoutHandle extends LabelledHandle<RecipeNode> {}
export class PipelineLayoutHandle extends LabelledHandle<RecipeNode> {}
export class BindGroupHandle extends LabelledHandle<BindGroupNode> {}
export class TextureViewHandle extends LabelledHandle<RecipeNode> {}
export class RenderBundleHandle extends LabelledHandle<BundleNode> {}
export class CommandBufferHandle extends LabelledHandle<CommandNode> {}

export class ShaderModuleHandle extends LabelledHandle<RecipeNode> {
  async getCompilationInfo(): Promise<GPUCompilationInfo> {
    const node = Handle.node(this)
    return node.core.untilCertain(() => (node.real as GPUShaderModule).getCompilationInfo())
  }
}

class PipelineHandle extends LabelledHandle<RecipeNode> {
  getBindGroupLayout(...args: readonly unknown[]): BindGroupLayoutHandle {
    const owner = Handle.node(this)
    const captured = args.map(capture)
    const real = (owner.real as unknown as Methods)['getBindGroupLayout']?.(...captured.map(materialize))
    const recipe = { owner, method: 'getBindGroupLayout', args: captured }
    return wrap(BindGroupLayoutHandle, new RecipeNode(owner.core, recipe, real as object))
  }
}

export class ComputePipelineHandle extends PipelineHandle {}
export class RenderPipelineHandle extends PipelineHandle {}

export class QuerySetHandle extends LabelledHandle<QueryNode> {
  get type(): GPUQueryType {
    return Handle.node(this).real.type
  }

  get count(): number {
    return Handle.node(this).real.count
  }

  destroy(): void {
    const node = Handle.node(this)
    node.isDestroyed = true
    node.real.destroy()
    node.core.noteDestroyed(node)
  }
}
