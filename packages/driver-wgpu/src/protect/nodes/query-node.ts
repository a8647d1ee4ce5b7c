import type { Core } from '../core.ts'
import type { Recipe } from './recipe.ts'
import { RecipeNode } from './recipe.ts'

/** A query set. Its results can be read only by resolving them into a buffer, and never be written back. */
export class QueryNode extends RecipeNode<GPUQuerySet> {
  isDestroyed = false
  /** The log still has to go past the destruction: until then it must live again on the next device. */
  isDestroyLogged = false
  /** Results that were not resolved yet, by index. */
  readonly #pending = new Set<number>()
  /** The device on which the result at an index was made, by its epoch. */
  readonly #madeIn = new Map<number, number>()

  constructor(core: Core, recipe: Recipe, real: GPUQuerySet) {
    super(core, recipe, real)
    core.queries.add(new WeakRef(this))
  }

  override build(device: GPUDevice): GPUQuerySet {
    const real = super.build(device)
    if (this.isDestroyed && !this.isDestroyLogged) real.destroy()
    return real
  }

  /** Holds results that were not resolved yet: a checkpoint now would lose them. */
  get isPending(): boolean {
    return this.#pending.size > 0 && !this.isDestroyed
  }

  markWritten(index: number): void {
    this.#pending.add(index)
    this.#madeIn.set(index, this.core.epoch)
  }

  markResolved(first: number, count: number): void {
    let isMissing = false
    for (let index = first; index < first + count; index += 1) {
      this.#pending.delete(index)
      // Made before the last checkpoint, on a device that was lost since: this one has zeros there.
      if ((this.#madeIn.get(index) ?? this.core.epoch) !== this.core.epoch) isMissing = true
    }
    if (isMissing) this.core.emit({ type: 'incomplete', label: this.label, format: 'query' })
  }
}
