import type { Checkpointable, Clock, FrozenState, RuntimeKind, SavedState } from '@egpu/core'

const pieceBytes = 2 ** 16

/** A cable that carries one piece after another, whoever sends it. */
export class SharedCable {
  readonly #clock: Clock
  readonly #bytesPerMs: number
  #freeAt = 0

  constructor(clock: Clock, bytesPerSecond: number) {
    this.#clock = clock
    this.#bytesPerMs = bytesPerSecond / 1_000
  }

  async carry(bytes: number, signal: AbortSignal | undefined): Promise<void> {
    const now = this.#clock.now()
    this.#freeAt = Math.max(this.#freeAt, now) + bytes / this.#bytesPerMs
    await this.#clock.sleep(this.#freeAt - now, { signal })
  }
}

export interface BulkyWorkOptions {
  readonly id: string
  readonly clock: Clock
  readonly cable: SharedCable
  readonly bytes: number
}

/** Work that does nothing but have a large state behind a cable. Its progress is the milliseconds it was at work. */
export class BulkyWork implements Checkpointable {
  readonly id: string
  readonly needs: Checkpointable['needs']
  readonly finished: Promise<void> = new Promise(() => undefined)
  /** That came over the cable so far. */
  drainedBytes = 0
  readonly #options: BulkyWorkOptions
  #done = 0
  #since: number | undefined

  constructor(options: BulkyWorkOptions) {
    this.#options = options
    this.id = options.id
    const runtimes: readonly RuntimeKind[] = ['simulated', 'cpu']
    this.needs = { runtimes, memoryBytes: options.bytes }
  }

  get progress(): number {
    return this.#done + (this.#since === undefined ? 0 : this.#options.clock.now() - this.#since)
  }

  async restore(_target: unknown, state: SavedState | undefined): Promise<void> {
    this.#done = state?.progress ?? 0
  }

  resume(): void {
    this.#since = this.#options.clock.now()
  }

  async freeze(): Promise<FrozenState> {
    const { cable, bytes } = this.#options
    const drained = (byteLength: number): number => (this.drainedBytes += byteLength)
    return {
      progress: this.progress,
      parts: [{ name: 'bulk', byteLength: bytes }],
      async *read(_part, { signal } = {}) {
        for (let at = 0; at < bytes; at += pieceBytes) {
          const byteLength = Math.min(pieceBytes, bytes - at)
          await cable.carry(byteLength, signal)
          drained(byteLength)
          yield new Uint8Array(byteLength)
        }
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
  }

  async suspend(): Promise<void> {
    this.#stop()
  }

  async release(): Promise<void> {
    this.#stop()
  }

  #stop(): void {
    this.#done = this.progress
    this.#since = undefined
  }
}
