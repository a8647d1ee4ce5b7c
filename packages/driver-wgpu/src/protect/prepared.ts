import { errorFilters } from '../flags.ts'
import { resolve } from './capture.ts'
import { Node } from './nodes/node.ts'
import type { Methods } from './nodes/node.ts'
import { RecipeNode } from './nodes/recipe.ts'

/** Calls whose objects hold nothing but are slow to make, and what those are made of. */
const plainMethods: ReadonlySet<string> = new Set([
  'createShaderModule',
  'createBindGroupLayout',
  'createPipelineLayout',
])
const pipelineMethods: ReadonlySet<string> = new Set(['createComputePipeline', 'createRenderPipeline'])

/** Something that is being made, and whether it came out well. */
interface Candidate {
  readonly node: Node
  readonly real: Promise<object | undefined>
}

/** Whether a node's object can be made before its device takes over. */
export function isPreparable(node: Node): node is RecipeNode {
  if (!(node instanceof RecipeNode) || node.recipe.owner !== undefined) return false
  return plainMethods.has(node.recipe.method) || pipelineMethods.has(node.recipe.method)
}

/**
 * Shader modules, layouts and pipelines that were made on a device before it takes over: compiling is what takes longest
 * of making everything again. What the device refuses is not among them, so that it is refused again in its turn.
 */
export class Prepared {
  readonly #device: GPUDevice
  readonly #reals = new WeakMap<Node, object>()
  #making: Promise<void> = Promise.resolve()

  constructor(device: GPUDevice) {
    this.#device = device
  }

  /** What was made for a node; `undefined` when it has to be made now. */
  realOf(node: Node): object | undefined {
    return this.#reals.get(node)
  }

  /** Makes what can be made of these, in their order; pipelines are compiled side by side. Never rejects. */
  make(nodes: readonly Node[]): Promise<void> {
    // One lot after another: the next may need what is not there yet.
    this.#making = this.#making.then(() => this.#make(nodes)).catch(() => {})
    return this.#making
  }

  async #make(nodes: readonly Node[]): Promise<void> {
    const made = new Map<Node, object>()
    const candidates: Candidate[] = []
    for (const node of nodes) {
      if (!isPreparable(node) || this.#reals.has(node)) continue
      const args = this.#argumentsOf(node, made)
      if (args === undefined) continue
      if (pipelineMethods.has(node.recipe.method)) {
        candidates.push({ node, real: this.#compile(node.recipe.method, args) })
        continue
      }
      const { real, isValid } = this.#call(node.recipe.method, args)
      made.set(node, real)
      candidates.push({ node, real: isValid.then((valid) => (valid ? real : undefined)) })
    }
    for (const { node, real } of candidates) {
      const object = await real
      if (object !== undefined) this.#reals.set(node, object)
    }
  }

  /** The arguments for this device; `undefined` when something that they need was not made on it. */
  #argumentsOf({ recipe }: RecipeNode, made: ReadonlyMap<Node, object>): readonly unknown[] | undefined {
    let isComplete = true
    const args = recipe.args.map((value) =>
      resolve(value, (used) => {
        const real = used instanceof Node ? (this.#reals.get(used) ?? made.get(used)) : undefined
        if (real === undefined) isComplete = false
        return real
      }),
    )
    return isComplete ? args : undefined
  }

  #call(method: string, args: readonly unknown[]): { readonly real: object; readonly isValid: Promise<boolean> } {
    const device = this.#device
    for (const filter of errorFilters) device.pushErrorScope(filter)
    const real = (device as unknown as Methods)[method]?.(...args) as object
    return { real, isValid: endScopes(device) }
  }

  async #compile(method: string, args: readonly unknown[]): Promise<object | undefined> {
    try {
      return (await (this.#device as unknown as Methods)[`${method}Async`]?.(...args)) as object
    } catch {
      return undefined
    }
  }
}

/** True when none of the scopes caught anything. */
async function endScopes(device: GPUDevice): Promise<boolean> {
  try {
    const caught = await Promise.all(errorFilters.map(() => device.popErrorScope()))
    return caught.every((error) => error === null)
  } catch {
    return false
  }
}
