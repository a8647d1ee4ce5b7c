import type { Core } from '../core.ts'
import { materialize } from '../capture.ts'
import { Node } from './node.ts'
import type { Methods } from './node.ts'

/** How most objects come about: a method of the device, or of another object, with its arguments. */
export interface Recipe {
  /** The object that is asked; `undefined` is the device. */
  readonly owner: Node | undefined
  readonly method: string
  /** Captured arguments. */
  readonly args: readonly unknown[]
}

/** An object that has no content of its own: made again by the same call. */
export class RecipeNode<Real extends object = object> extends Node<Real> {
  readonly recipe: Recipe

  constructor(core: Core, recipe: Recipe, real: Real) {
    super(core, real, labelOf(recipe.args))
    this.recipe = recipe
    core.register(this)
  }

  build(device: GPUDevice): Real {
    const prepared = this.core.incarnation.prepared.realOf(this)
    if (prepared !== undefined) return prepared as Real
    const { owner, method, args } = this.recipe
    const target = (owner?.real ?? device) as unknown as Methods
    return target[method]?.(...args.map(materialize)) as Real
  }
}

/** The label in captured arguments, as a descriptor has it. */
export function labelOf(args: readonly unknown[]): string {
  const label = (args[0] as { readonly label?: unknown } | undefined)?.label
  return typeof label === 'string' ? label : ''
}
