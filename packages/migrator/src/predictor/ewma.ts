/** Mean and variance that forget: each new value counts `share`, the first ones more, so that a start does not stick. */
export class Ewma {
  readonly #share: number
  #count = 0
  #mean = 0
  #variance = 0

  constructor(share: number) {
    this.#share = share
  }

  get count(): number {
    return this.#count
  }

  get mean(): number {
    return this.#mean
  }

  get deviation(): number {
    return Math.sqrt(this.#variance)
  }

  add(value: number): void {
    this.#count += 1
    const share = Math.max(this.#share, 1 / this.#count)
    const difference = value - this.#mean
    this.#mean += share * difference
    this.#variance = (1 - share) * (this.#variance + share * difference * difference)
  }
}
