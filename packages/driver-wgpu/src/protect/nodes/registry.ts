import type { Node } from './node.ts'

/** Objects that have to be made again on the next device: those that something still refers to. */
export class Registry {
  readonly #nodes: Map<number, WeakRef<Node>> = new Map()
  readonly #collected = new FinalizationRegistry<number>((seq) => void this.#nodes.delete(seq))

  add(node: Node): void {
    this.#nodes.set(node.seq, new WeakRef(node))
    this.#collected.register(node, node.seq)
  }

  get size(): number {
    return this.#nodes.size
  }

  /** In the order in which they were made, so that each comes after what it uses. */
  all(): readonly Node[] {
    return [...this.#nodes.values()].map((reference) => reference.deref()).filter((node) => node !== undefined)
  }
}
