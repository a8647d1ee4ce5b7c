import type { Node } from '../nodes/node.ts'

/**
 * What the application holds in place of a WebGPU object. Its class stands on the prototype of the real one, so
 * `instanceof` says what it should; all it has is a private reference to its node.
 */
export class Handle<N extends Node = Node> {
  readonly #node: N

  constructor(node: N) {
    this.#node = node
  }

  /** The node behind a handle; `undefined` for any other value. */
  static nodeOf(value: object): Node | undefined {
    return #node in value ? value.#node : undefined
  }

  /** The node of a handle that is one for certain: `this` of a method. */
  static node<N extends Node>(handle: Handle<N>): N {
    return handle.#node
  }
}

/** Any constructor of handles. */
export interface HandleClass<N extends Node, H extends Handle<N>> {
  new (node: N): H
  readonly prototype: H
}

const standing = new WeakSet<object>()

/** Wraps a node for the application. The first of each class finds out what the real objects' prototype is. */
export function wrap<N extends Node, H extends Handle<N>>(kind: HandleClass<N, H>, node: N): H {
  standOn(kind.prototype, node.real)
  return new kind(node)
}

/**
 * Puts a class of ours onto the prototype of a real object, once. What the class inherited from other classes of ours
 * becomes its own, and `constructor` is the real one's.
 */
export function standOn(prototype: object, real: object): void {
  if (standing.has(prototype)) return
  standing.add(prototype)
  let from = Object.getPrototypeOf(prototype) as object
  while (from !== Handle.prototype && from !== Object.prototype) {
    for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (!Object.hasOwn(prototype, name)) Object.defineProperty(prototype, name, property)
    }
    from = Object.getPrototypeOf(from) as object
  }
  Reflect.deleteProperty(prototype, 'constructor')
  Object.setPrototypeOf(prototype, Object.getPrototypeOf(real) as object)
}
