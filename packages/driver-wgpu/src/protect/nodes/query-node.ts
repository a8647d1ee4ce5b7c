import type { Core } from '../core.ts'
import type { Recipe } from './recipe.ts'
import { RecipeNode } from './recipe.ts'

/** A query set. Its results can be read only by resolving them into a buffer, and never be written back. */
export class QueryNode extends RecipeNode<GPUQuerySet> {
  isDestroyed = false
  /** The log still has to go past the destruction: until then it must live again on the next device. */
  isDestroyLogged = false
  /** Holds results that were not resolved yet: a checkpoint now would lose them. */
  isPending = false

  constructor(core: Core, recipe: Recipe, real: GPUQuerySet) {
    super(core, recipe, real)
    core.queries.add(new WeakRef(this))
  }

  override build(device: GPUDevice): GPUQuerySet {
    const real = super.build(device)
    if (this.isDestroyed && !this.isDestroyLogged) real.destroy()
    return real
  }
}
