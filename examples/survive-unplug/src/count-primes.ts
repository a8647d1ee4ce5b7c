import { Readable } from 'node:stream'
import type { Checkpointable, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'
import { RuntimeKind } from '@egpu/core'

/** Work with a state of four bytes: it counts primes, and can be frozen, moved and resumed after any number. */
export class CountPrimes implements Checkpointable {
  readonly id = 'count-primes'
  readonly needs: WorkloadNeeds = { runtimes: [RuntimeKind.Simulated, RuntimeKind.Cpu], memoryBytes: 4 }
  progress = 0
  count = 0
  readonly #upTo: number
  #run = 0
  #finish!: () => void
  readonly finished: Promise<void> = new Promise((resolve) => (this.#finish = resolve))

  constructor(upTo: number) {
    this.#upTo = upTo
  }

  async restore(_target: OpenTarget, state: SavedState | undefined): Promise<void> {
    this.progress = state?.progress ?? 0
    this.count = 0
    for await (const bytes of state?.read('count') ?? [])
      this.count = new Uint32Array(Uint8Array.from(bytes).buffer)[0] ?? 0
  }

  readonly resume = (): void => void this.#work(++this.#run)

  async suspend(): Promise<void> {
    this.#run++
  }

  readonly release = (): Promise<void> => this.suspend()

  async freeze(): Promise<FrozenState> {
    const bytes = new Uint8Array(Uint32Array.of(this.count).buffer)
    const parts = [{ name: 'count', byteLength: bytes.length }]
    const read = (): AsyncIterable<Uint8Array> => Readable.from([bytes])
    return { progress: this.progress, parts, read, [Symbol.asyncDispose]: async () => {} }
  }

  async #work(run: number): Promise<void> {
    while (run === this.#run && this.progress < this.#upTo) {
      for (const end = Math.min(this.progress + 500, this.#upTo); this.progress < end; this.progress++)
        if (isPrime(this.progress + 1)) this.count++
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    if (run === this.#run) this.#finish()
  }
}

function isPrime(number: number): boolean {
  for (let divisor = 2; divisor * divisor <= number; divisor++) if (number % divisor === 0) return false
  return number > 1
}
