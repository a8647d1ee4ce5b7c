import { createHash } from 'node:crypto'
import { RuntimeKind } from '@egpu/core'
import type { Checkpointable, Clock, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'
import type { SimBuffer, SimGpu } from '@egpu/driver-sim'

/** Calls of the contract that can be made to misbehave. */
export type Call = 'restore' | 'freeze' | 'read' | 'suspend' | 'release'

export interface MixerOptions {
  readonly clock: Clock
  readonly id?: string
  readonly words?: number
  readonly steps?: number
  readonly stepMs?: number
  readonly runtimes?: readonly RuntimeKind[]
  readonly memoryBytes?: number
  readonly features?: readonly string[]
  /** Asked before each call: `throw` and `hang` do that, an Error is thrown. */
  readonly fault?: (call: Call, target: OpenTarget | undefined) => 'throw' | 'hang' | Error | undefined
  /** What the state says its length is, where that is a lie. */
  readonly declaredBytes?: number
  /** Hears of each step that was done here. */
  readonly onStep?: (progress: number) => void
}

/** Flops per millisecond of the simulated GPU by default: 10^13 per second. */
const flopsPerMs = 1e10

/** One step: every word depends on itself, its neighbour and the number of the step, so order and count both show. */
export function mix(words: Uint32Array, step: number): void {
  const { length } = words
  let previous = words[length - 1] as number
  for (let i = 0; i < length; i += 1) {
    const word = words[i] as number
    words[i] = (Math.imul(word, 1_664_525) + 1_013_904_223 + (previous ^ step)) >>> 0
    previous = word
  }
}

/** What an undisturbed run ends with. */
export function mixed(words: number, steps: number): string {
  const state = initial(words)
  for (let step = 0; step < steps; step += 1) mix(state, step)
  return sha256(new Uint8Array(state.buffer))
}

function initial(words: number): Uint32Array {
  return Uint32Array.from({ length: words }, (_, i) => i * 2_654_435_761)
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Where the words are at the moment. */
interface Bench {
  step(number: number): Promise<void>
  copy(): Promise<{ read(signal?: AbortSignal): Promise<Uint8Array>; drop(): void }>
}

/** A computation whose result gives away every lost, repeated or garbled step. Runs on simulated GPUs and the CPU. */
export class Mixer implements Checkpointable {
  readonly id: string
  readonly needs: WorkloadNeeds
  readonly finished: Promise<void>
  readonly calls: string[] = []
  progress = 0
  result: string | undefined
  /** Times it was set to work while it was at work already: each is a double owner. */
  doubleOwners = 0
  readonly #options: Required<Pick<MixerOptions, 'clock' | 'words' | 'steps' | 'stepMs'>> & MixerOptions
  #settle!: { resolve(): void; reject(error: unknown): void }
  #target: OpenTarget | undefined
  #bench: Bench | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #stay = 0
  #runs = false

  constructor(options: MixerOptions) {
    this.#options = { words: 256, steps: 1_000, stepMs: 1, ...options }
    this.id = options.id ?? 'mixer'
    const {
      words,
      runtimes = [RuntimeKind.Simulated, RuntimeKind.Cpu],
      memoryBytes = words * 8,
      features,
    } = this.#options
    this.needs = { runtimes, memoryBytes, features }
    this.finished = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.finished.catch(() => undefined)
  }

  fail(error: Error): void {
    this.#settle.reject(error)
  }

  async restore(
    target: OpenTarget,
    state: SavedState | undefined,
    { signal }: { signal?: AbortSignal | undefined },
  ): Promise<void> {
    this.calls.push(`restore ${state?.progress ?? 'afresh'} on ${target.target.name}`)
    this.#stay += 1
    const stay = this.#stay
    await this.#misbehave('restore', target)
    const words = state === undefined ? initial(this.#options.words) : await this.#load(state, signal)
    const bench =
      target.handle === undefined ? this.#onCpu(words) : await this.#onGpu(target.handle as SimGpu, words, signal)
    signal?.throwIfAborted()
    if (stay !== this.#stay) throw new Error('restored on a target that was given up meanwhile')
    this.#target = target
    this.#bench = bench
    this.#turn = Promise.resolve()
    this.progress = state?.progress ?? 0
  }

  resume(): void {
    this.calls.push('resume')
    if (this.#runs) this.doubleOwners += 1
    this.#runs = true
    void this.#work(this.#stay)
  }

  async freeze({ signal }: { signal?: AbortSignal | undefined }): Promise<FrozenState> {
    this.calls.push(`freeze ${this.progress}`)
    await this.#misbehave('freeze', this.#target)
    const bench = this.#bench as Bench
    const { progress, copy } = await this.#inTurn(async () => ({ progress: this.progress, copy: await bench.copy() }))
    const { words, declaredBytes = words * 4 } = this.#options
    const misbehave = (): Promise<void> => this.#misbehave('read', this.#target)
    return {
      progress,
      parts: [{ name: 'words', byteLength: declaredBytes }],
      async *read(_part, options) {
        await misbehave()
        const bytes = await copy.read(options?.signal ?? signal)
        for (let at = 0; at < bytes.byteLength; at += 256) yield bytes.subarray(at, at + 256)
      },
      [Symbol.asyncDispose]: async () => copy.drop(),
    }
  }

  async suspend(): Promise<void> {
    this.calls.push(`suspend ${this.progress}`)
    this.#runs = false
    await this.#misbehave('suspend', this.#target)
    await this.#turn
  }

  async release({ lost }: { lost: boolean }): Promise<void> {
    this.calls.push(`release${lost ? ' lost' : ''}`)
    this.#stay += 1
    this.#runs = false
    await this.#misbehave('release', this.#target)
    this.#target = undefined
    this.#bench = undefined
  }

  async #work(stay: number): Promise<void> {
    try {
      while (this.#runs && stay === this.#stay && this.progress < this.#options.steps) {
        await this.#inTurn(async () => {
          if (!this.#runs || stay !== this.#stay) return
          await this.#bench?.step(this.progress)
          if (stay !== this.#stay) return
          this.progress += 1
          this.#options.onStep?.(this.progress)
        })
      }
      if (!this.#runs || stay !== this.#stay) return
      const copy = await this.#bench?.copy()
      const bytes = await copy?.read()
      if (stay !== this.#stay || bytes === undefined) return
      this.result = sha256(bytes)
      this.#settle.resolve()
    } catch {
      // The target is gone; whoever hears of the loss restores elsewhere.
    }
  }

  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(job)
    this.#turn = mine.catch(() => undefined)
    return mine
  }

  async #misbehave(call: Call, target: OpenTarget | undefined): Promise<void> {
    const fault = this.#options.fault?.(call, target)
    if (fault === 'hang') await new Promise(() => undefined)
    if (fault === 'throw') throw new Error(`${call} is broken`)
    if (fault instanceof Error) throw fault
  }

  async #load(state: SavedState, signal: AbortSignal | undefined): Promise<Uint32Array> {
    const bytes = new Uint8Array(this.#options.words * 4)
    let at = 0
    for await (const chunk of state.read('words', { signal })) {
      bytes.set(chunk, at)
      at += chunk.byteLength
    }
    if (at !== bytes.byteLength) throw new Error(`the state has ${at} bytes`)
    return new Uint32Array(bytes.buffer)
  }

  #onCpu(words: Uint32Array): Bench {
    const { clock, stepMs } = this.#options
    return {
      step: async (number) => {
        await clock.sleep(stepMs * 4)
        mix(words, number)
      },
      copy: async () => {
        const bytes = new Uint8Array(words.slice().buffer)
        return { read: async () => bytes, drop: () => undefined }
      },
    }
  }

  async #onGpu(gpu: SimGpu, words: Uint32Array, signal: AbortSignal | undefined): Promise<Bench> {
    const buffer = gpu.createBuffer(words.byteLength, { label: 'words' })
    await gpu.write(buffer, words, { signal })
    const flops = this.#options.stepMs * flopsPerMs
    return {
      step: (number) => gpu.run((bytes) => mix(new Uint32Array(bytes(buffer)), number), { flops }),
      copy: async () => {
        const shadow: SimBuffer = gpu.createBuffer(words.byteLength, { label: 'shadow' })
        await gpu.copy(buffer, shadow)
        return { read: (abort) => gpu.read(shadow, { signal: abort }), drop: () => gpu.destroyBuffer(shadow) }
      },
    }
  }
}
