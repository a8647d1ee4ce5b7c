import { createHash } from 'node:crypto'
import { RuntimeKind } from '@egpu/core'
import type { AbortOptions, Checkpointable, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'

export interface TallyOptions {
  readonly byteLength?: number
  readonly steps?: number
  readonly stepMs?: number
  /** It goes no further on this host, and does not finish either. */
  readonly haltAt?: number
  readonly needs?: Partial<WorkloadNeeds>
}

/** Work whose result tells whether each step was done once and in order: every step stirs its number into the state. */
export class Tally implements Checkpointable {
  readonly id: string
  readonly needs: WorkloadNeeds
  readonly finished: Promise<void>
  progress = 0
  /** Restores that began from a checkpoint, with its progress. */
  readonly restored: number[] = []
  readonly #bytes: Buffer
  readonly #steps: number
  readonly #stepMs: number
  readonly #haltAt: number
  #finish: () => void = () => {}
  #timer: NodeJS.Timeout | undefined

  constructor(id: string, options: TallyOptions = {}) {
    const { byteLength = 300_000, steps = 400, stepMs = 5, haltAt = Infinity, needs = {} } = options
    this.id = id
    this.needs = { runtimes: [RuntimeKind.Simulated], ...needs }
    this.#bytes = Buffer.alloc(byteLength)
    mark(this.#bytes)
    this.#steps = steps
    this.#stepMs = stepMs
    this.#haltAt = haltAt
    this.finished = new Promise((resolve) => {
      this.#finish = resolve
    })
  }

  get result(): string {
    return createHash('sha256').update(this.#bytes).digest('hex')
  }

  async restore(_: OpenTarget, state: SavedState | undefined, { signal }: Required<AbortOptions>): Promise<void> {
    this.progress = state?.progress ?? 0
    if (state === undefined) {
      mark(this.#bytes.fill(0))
      return
    }
    this.restored.push(state.progress)
    let at = 0
    for await (const piece of state.read('state', { signal })) {
      this.#bytes.set(piece, at)
      at += piece.byteLength
    }
  }

  resume(): void {
    this.#timer ??= setInterval(() => this.#step(), this.#stepMs)
  }

  async freeze(): Promise<FrozenState> {
    const bytes = Buffer.from(this.#bytes)
    return {
      progress: this.progress,
      parts: [{ name: 'state', byteLength: bytes.byteLength }],
      async *read() {
        for (let at = 0; at < bytes.byteLength; at += 65_536) yield bytes.subarray(at, at + 65_536)
      },
      async [Symbol.asyncDispose]() {},
    }
  }

  async suspend(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async release(): Promise<void> {
    await this.suspend()
  }

  #step(): void {
    if (this.progress >= this.#haltAt) return
    this.progress += 1
    stir(this.#bytes, this.progress)
    if (this.progress < this.#steps) return
    void this.suspend()
    this.#finish()
  }
}

/** So that no two chunks are alike: content that occurs twice would travel once. */
function mark(bytes: Buffer): void {
  for (let at = 0; at + 8 <= bytes.byteLength; at += 2 ** 16) bytes.writeDoubleBE(at + 1, at)
}

function stir(bytes: Buffer, step: number): void {
  const at = (step * 7_919) % (bytes.byteLength - 4)
  bytes.writeUInt32BE((bytes.readUInt32BE(at) * 31 + step) >>> 0, at)
}

/** What a run of so many steps that was never interrupted ends with. */
export function tallied(byteLength: number, steps: number): string {
  const bytes = Buffer.alloc(byteLength)
  mark(bytes)
  for (let step = 1; step <= steps; step += 1) stir(bytes, step)
  return createHash('sha256').update(bytes).digest('hex')
}
