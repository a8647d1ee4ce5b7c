import type { Checkpointable, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'
import { RuntimeKind } from '@egpu/core'

/** Work with a state of four bytes: it counts primes, and can be frozen, moved and resumed after any number. */
export class CountPrimes implements Checkpointable {
  readonly id = 'count-primes'
  readonly needs: WorkloadNeeds = { runtimes: [RuntimeKind.Simulated, RuntimeKind.Cpu], memoryBytes: 4 }
  readonly finished: Promise<void>
  progress = 0
  count = 0
  readonly #upTo: number
  #run = 0
  #finish!: () => void

  constructor(upTo: number) {
    this.#upTo = upTo
    this.finished = new Promise((resolve) => (this.#finish = resolve))
  }

  async restore(_target: OpenTarget, state: SavedState | undefined): Promise<void> {
    this.progress = state?.progress ?? 0
    this.count = 0
    for await (const bytes of state?.read('count') ?? [])
      this.count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0)
  }

  resume(): void {
    void this.#work(++this.#run)
  }

  async suspend(): Promise<void> {
    this.#run++
  }

  async release(): Promise<void> {
    this.#run++
  }

  async freeze(): Promise<FrozenState> {
    const bytes = new Uint8Array(4)
    new DataView(bytes.buffer).setUint32(0, this.count)
    const read = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes
    }
    return {
      progress: this.progress,
      parts: [{ name: 'count', byteLength: 4 }],
      read,
      [Symbol.asyncDispose]: async () => {},
    }
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
