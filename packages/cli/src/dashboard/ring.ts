/** Keeps the newest `capacity` items; each has the number of its arrival, counted from 1. */
export class Ring<T> {
  readonly #items: T[] = []
  readonly #capacity: number
  #count = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** How many have arrived in all; the newest one's number. */
  get count(): number {
    return this.#count
  }

  push(item: T): void {
    this.#items[this.#count % this.#capacity] = item
    this.#count += 1
  }

  /** Those that arrived after number `after` and are still kept, oldest first. */
  since(after: number): T[] {
    const from = Math.max(after, this.#count - this.#capacity, 0)
    const items: T[] = []
    for (let index = from; index < this.#count; index += 1) items.push(this.#items[index % this.#capacity] as T)
    return items
  }
}
