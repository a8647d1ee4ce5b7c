import type { Node } from './node.ts'
import { RecipeNode } from './recipe.ts'
import { TextureNode } from './texture-node.ts'

/** The texture behind a texture or a view of one; `undefined` for anything else. */
export function textureOf(value: unknown): TextureNode | undefined {
  if (value instanceof TextureNode) return value
  if (!(value instanceof RecipeNode)) return undefined
  const owner: Node | undefined = value.recipe.owner
  return owner instanceof TextureNode ? owner : undefined
}
