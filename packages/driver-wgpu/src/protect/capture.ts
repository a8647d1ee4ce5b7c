import { Handle } from './handles/handle.ts'
import type { BufferNode } from './nodes/buffer-node.ts'
import { Node } from './nodes/node.ts'
import type { TextureNode } from './nodes/texture-node.ts'

/** A buffer or texture in a place that needs one of its declared usages. */
export class Use {
  readonly node: BufferNode | TextureNode
  readonly usage: number

  constructor(node: BufferNode | TextureNode, usage: number) {
    this.node = node
    this.usage = usage
  }
}

/**
 * Copies what the application handed over, so that it can be handed over again later: handles become nodes, sequences
 * become arrays, typed ones typed arrays, dictionaries are copied member by member. Objects of the platform, such as
 * images, stay as they are.
 */
export function capture(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const node = Handle.nodeOf(value)
  if (node !== undefined) return node
  if (value instanceof ArrayBuffer) return value.slice(0)
  if (ArrayBuffer.isView(value)) return copyOfView(value)
  if (isPlatformObject(value)) return value
  if (Symbol.iterator in value) return Array.from(value as Iterable<unknown>, capture)
  const copy: Record<string, unknown> = {}
  // As WebIDL reads a dictionary: inherited members count.
  for (const name in value) copy[name] = capture((value as Record<string, unknown>)[name])
  return copy
}

/** The same arguments for the current device. */
export function materialize(value: unknown): unknown {
  return resolve(value, realNow)
}

/** The same arguments, with objects of the platform in the place of nodes. */
export function resolve(value: unknown, realOf: (node: Node | Use) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Node || value instanceof Use) return realOf(value)
  if (Array.isArray(value)) return value.map((item) => resolve(item, realOf))
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  const copy: Record<string, unknown> = {}
  for (const name in value) copy[name] = resolve((value as Record<string, unknown>)[name], realOf)
  return copy
}

function realNow(value: Node | Use): unknown {
  return value instanceof Use ? value.node.realFor(value.usage) : value.real
}

/** A number as WebIDL reads an integer: `'16'` and 16.5 are 16. What is no number stays what it is. */
export function asInteger(value: unknown): unknown {
  const number = typeof value === 'bigint' ? Number.NaN : Number(value)
  return Number.isFinite(number) ? Math.trunc(number) : value
}

/** A view of bytes that nobody else has, also where the original's memory is shared with other threads. */
function copyOfView(view: ArrayBufferView): ArrayBufferView {
  const { buffer } = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice()
  // By its tag, not its constructor: a `Buffer` of Node's is a Uint8Array too.
  const { [Symbol.toStringTag]: name } = view as ArrayBufferView & { readonly [Symbol.toStringTag]: string }
  const Kind = Reflect.get(globalThis, name) as new (bytes: ArrayBuffer) => ArrayBufferView
  return new Kind(buffer)
}

/** Objects of WebGPU, of the DOM, of JavaScript itself: all have a tag, and no dictionary has. */
function isPlatformObject(value: object): boolean {
  return Symbol.toStringTag in value
}
