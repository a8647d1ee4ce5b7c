import type { Checkpointable, Clock, FrozenState, OpenTarget, RuntimeKind, SavedState } from '@egpu/core'

export interface SteadyWorkOptions {
  readonly id?: string
  readonly clock: Clock
  /** How long a freeze makes it stand still, how long the drain takes, and how long a restore. */
  readonly pauseMs?: number
  readonly drainMs?: number
  readonly restoreMs?: number
  readonly memoryBytes?: number
  readonly units?: number
}

/** Work without work: its progress is the milliseconds it was at work. A day of it takes no time. */
export class SteadyWork implements Checkpointable {
  readonly id: string
  readonly needs: Checkpointable['needs']
  readonly finished: Promise<void> = new Promise(() => undefined)
  readonly #options: Required<SteadyWorkOptions>
  #done = 0
  #since: number | undefined

  constructor(options: SteadyWorkOptions) {
    const { id = 'steady', pauseMs = 50, drainMs = 400, restoreMs = 200, memoryBytes = 2 ** 26, units = 1e9 } = options
    this.#options = { clock: options.clock, id, pauseMs, drainMs, restoreMs, memoryBytes, units }
    this.id = id
    const runtimes: readonly RuntimeKind[] = ['simulated', 'cpu']
    this.needs = { runtimes, memoryBytes, units, profile: { flops: 1e10 } }
  }

  get progress(): number {
    return this.#done + (this.#since === undefined ? 0 : this.#options.clock.now() - this.#since)
  }

  async restore(
    _target: OpenTarget,
    state: SavedState | undefined,
    options: { signal: AbortSignal | undefined },
  ): Promise<void> {
    if (state !== undefined) await this.#options.clock.sleep(this.#options.restoreMs, options)
    this.#done = state?.progress ?? 0
  }

  resume(): void {
    this.#since = this.#options.clock.now()
  }

  async freeze({ signal }: { signal: AbortSignal | undefined }): Promise<FrozenState> {
    const { clock, pauseMs, drainMs } = this.#options
    const wasAtWork = this.#since !== undefined
    this.#stop()
    await clock.sleep(pauseMs, { signal })
    const progress = this.#done
    if (wasAtWork) this.resume()
    return {
      progress,
      parts: [{ name: 'state', byteLength: 8 }],
      async *read() {
        await clock.sleep(drainMs, { signal })
        yield new Uint8Array(8)
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
