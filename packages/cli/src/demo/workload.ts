import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable, Clock, FrozenState, OpenTarget, RuntimeKind, SavedState, WorkloadNeeds } from '@egpu/core'
import { engineFor, type FieldEngine } from './engine.ts'
import { initialField } from './gray-scott.ts'

export interface FieldOptions {
  /** `gray-scott` unless several run side by side. */
  readonly id?: string | undefined
  readonly size: number
  readonly steps: number
  readonly seed: number
  /** Steps between two chances to pause; also the unit that is lost at most twice. */
  readonly batch: number
  readonly runtimes: readonly RuntimeKind[]
  readonly clock: Clock
  /** What a step takes on the processor, on a virtual clock; 0 when time is real. */
  readonly cpuStepMs: number
  readonly onProgress?: ((progress: number) => void) | undefined
}

const part = 'field'

/** The Gray–Scott field as work that can be saved, moved and resumed on WebGPU, the simulator and the processor. */
export class FieldWorkload implements Checkpointable {
  readonly id: string
  readonly needs: WorkloadNeeds
  readonly finished: Promise<void>
  progress = 0
  /** The finished field. */
  result: Uint32Array | undefined
  readonly #options: FieldOptions
  readonly #bytes: number
  #engine: FieldEngine | undefined
  /** Who may use the engine: batches and copies take turns. */
  #turn: Promise<unknown> = Promise.resolve()
  /** Rises whenever work stops or the target changes; a loop of an older run ends without counting. */
  #run = 0
  #settle!: { resolve(): void; reject(error: unknown): void }

  constructor(options: FieldOptions) {
    this.#options = options
    this.id = options.id ?? 'gray-scott'
    this.#bytes = options.size * options.size * 4
    this.needs = { runtimes: options.runtimes, memoryBytes: this.#bytes * 4 }
    this.finished = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
  }

  async restore(target: OpenTarget, state: SavedState | undefined, { signal }: { signal: AbortSignal }): Promise<void> {
    const { size, seed, clock, cpuStepMs } = this.#options
    const field =
      state === undefined ? new Uint8Array(initialField(size, seed).buffer) : await this.#read(state, signal)
    const engine = engineFor(target, size, (steps) => clock.sleep(steps * cpuStepMs))
    await engine.load(field, signal)
    this.#engine = engine
    this.#turn = Promise.resolve()
    this.progress = state?.progress ?? 0
  }

  resume(): void {
    this.#run += 1
    void this.#work(this.#run)
  }

  async freeze({ signal }: { signal: AbortSignal }): Promise<FrozenState> {
    const engine = this.#held()
    const { progress, copy } = await this.#inTurn(async () => ({
      progress: this.progress,
      copy: await engine.copy(signal),
    }))
    return {
      progress,
      parts: [{ name: part, byteLength: this.#bytes }],
      async *read(_name, options = {}) {
        yield await copy.read(options)
      },
      [Symbol.asyncDispose]: async () => copy.dispose(),
    }
  }

  async suspend(): Promise<void> {
    this.#run += 1
    await this.#turn
  }

  async release(): Promise<void> {
    this.#run += 1
    this.#engine = undefined
  }

  async #work(run: number): Promise<void> {
    const engine = this.#held()
    const { steps, batch, onProgress } = this.#options
    try {
      while (this.progress < steps) {
        await this.#inTurn(async () => {
          // Counted only now: an older run's last steps may just have been added.
          const count = Math.min(batch, steps - this.progress)
          if (run !== this.#run || count <= 0) return
          await engine.advance(count)
          // Steps that were under way when the work was suspended are in the field, so they count.
          if (engine === this.#engine) this.progress += count
        })
        if (run !== this.#run) return
        onProgress?.(this.progress)
      }
      const field = await this.#inTurn(() => engine.read())
      if (run !== this.#run) return
      this.result = new Uint32Array(field.slice().buffer)
      this.#settle.resolve()
    } catch (error) {
      // A lost target ends this run; the migrator hears of the loss from the target itself.
      if (run === this.#run && !EGpuError.is(error, EGpuErrorCode.DeviceLost)) this.#settle.reject(error)
    }
  }

  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(job)
    this.#turn = mine.catch(() => {})
    return mine
  }

  #held(): FieldEngine {
    if (this.#engine === undefined) throw new TypeError('the field is on no target: call restore() first')
    return this.#engine
  }

  async #read(state: SavedState, signal: AbortSignal): Promise<Uint8Array> {
    const field = new Uint8Array(this.#bytes)
    let offset = 0
    for await (const chunk of state.read(part, { signal })) {
      field.set(chunk, offset)
      offset += chunk.byteLength
    }
    return field
  }
}
