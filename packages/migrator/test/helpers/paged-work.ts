import { createHash } from 'node:crypto'
import { RuntimeKind } from '@egpu/core'
import type { Checkpointable, Clock, FrozenState, OpenTarget, SavedState, StagedState, StateRange } from '@egpu/core'
import type { SimBuffer, SimGpu } from '@egpu/driver-sim'

export interface PagedWorkOptions {
  readonly clock: Clock
  readonly id?: string
  readonly pages?: number
  readonly pageBytes?: number
  readonly steps?: number
  readonly stepMs?: number
  /** Pages that one step changes. */
  readonly perStep?: number
  /** Makes a call misbehave. */
  readonly fault?: (call: PagedCall) => 'throw' | 'hang' | undefined
  /** Loses what is written to the next target, or part of it. */
  readonly spoil?: boolean
}

export type PagedCall = 'stage' | 'write' | 'read back' | 'adopt' | 'freeze' | 'suspend'

const flopsPerMs = 1e10

/** The pages that a step changes: a walk that comes to each of them. */
function pagesOf(step: number, perStep: number, pages: number): number[] {
  return Array.from({ length: perStep }, (_, i) => (step * perStep + i) % pages)
}

function change(words: Uint32Array, step: number): void {
  for (let i = 0; i < words.length; i += 64) words[i] = (Math.imul(words[i] as number, 1_664_525) + step + i) >>> 0
}

/** What an undisturbed run ends with. */
export function pagedReference(pages: number, pageBytes: number, steps: number, perStep: number): string {
  const bytes = new ArrayBuffer(pages * pageBytes)
  for (let step = 0; step < steps; step += 1) {
    for (const page of pagesOf(step, perStep, pages))
      change(new Uint32Array(bytes, page * pageBytes, pageBytes / 4), step)
  }
  return createHash('sha256').update(new Uint8Array(bytes)).digest('hex')
}

/** Work on one buffer of a simulated GPU that knows which pages it changes, and can be copied while it goes on. */
export class PagedWork implements Checkpointable {
  readonly id: string
  readonly needs: Checkpointable['needs']
  readonly finished: Promise<void>
  readonly calls: string[] = []
  progress = 0
  result: string | undefined
  doubleOwners = 0
  readonly #options: Required<Omit<PagedWorkOptions, 'id' | 'fault'>> & Pick<PagedWorkOptions, 'fault'>
  readonly #byteLength: number
  #resolve: () => void = () => undefined
  #gpu: SimGpu | undefined
  #buffer: SimBuffer | undefined
  #dirty: Set<number> | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #runs = false
  #stay = 0

  constructor(options: PagedWorkOptions) {
    const defaults = { pages: 64, pageBytes: 4_096, steps: 400, stepMs: 1, perStep: 1, spoil: false }
    this.#options = { ...defaults, ...options }
    const { pages, pageBytes } = this.#options
    this.#byteLength = pages * pageBytes
    this.id = options.id ?? 'paged'
    this.needs = { runtimes: [RuntimeKind.Simulated], memoryBytes: this.#byteLength * 2 }
    this.finished = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  async restore(target: OpenTarget, state: SavedState | undefined): Promise<void> {
    this.calls.push(`restore ${state?.progress ?? 'afresh'} on ${target.target.name}`)
    const stay = (this.#stay += 1)
    const bytes = new Uint8Array(this.#byteLength)
    let at = 0
    if (state !== undefined) {
      for await (const chunk of state.read('pages')) {
        bytes.set(chunk, at)
        at += chunk.byteLength
      }
      if (at !== bytes.byteLength) throw new Error(`the state has ${at} bytes`)
    }
    const gpu = target.handle as SimGpu
    const buffer = gpu.createBuffer(this.#byteLength, { label: 'pages' })
    await gpu.write(buffer, bytes)
    if (stay !== this.#stay) throw new Error('given up meanwhile')
    this.#settleOn(gpu, buffer, state?.progress ?? 0)
  }

  resume(): void {
    this.calls.push('resume')
    if (this.#runs) this.doubleOwners += 1
    this.#runs = true
    void this.#work(this.#stay)
  }

  async freeze(): Promise<FrozenState> {
    this.calls.push(`freeze ${this.progress}`)
    await this.#misbehave('freeze')
    const gpu = this.#gpu as SimGpu
    const buffer = this.#buffer as SimBuffer
    const { pageBytes } = this.#options
    const { shadow, progress, dirty } = await this.#inTurn(async () => {
      const copy = gpu.createBuffer(this.#byteLength, { label: 'shadow' })
      await gpu.copy(buffer, copy)
      const before = this.#dirty
      this.#dirty = new Set()
      return { shadow: copy, progress: this.progress, dirty: before }
    })
    const range = (page: number): StateRange => ({ part: 'pages', byteOffset: page * pageBytes, byteLength: pageBytes })
    async function* read({ byteOffset, byteLength }: StateRange): AsyncIterable<Uint8Array> {
      const piece = 256 * 1024
      for (let at = 0; at < byteLength; at += piece) {
        const length = Math.min(piece, byteLength - at)
        yield await gpu.read(shadow, { byteOffset: byteOffset + at, byteLength: length })
      }
    }
    return {
      progress,
      parts: [{ name: 'pages', byteLength: this.#byteLength }],
      changed: dirty === undefined ? undefined : [...dirty].map(range),
      read: () => read({ part: 'pages', byteOffset: 0, byteLength: this.#byteLength }),
      readRange: read,
      [Symbol.asyncDispose]: async () => gpu.destroyBuffer(shadow),
    }
  }

  async stage(target: OpenTarget): Promise<StagedState> {
    this.calls.push(`stage on ${target.target.name}`)
    await this.#misbehave('stage')
    const gpu = target.handle as SimGpu
    const buffer = gpu.createBuffer(this.#byteLength, { label: 'staged' })
    const stay = this.#stay
    const { spoil } = this.#options
    const misbehave = (call: PagedCall): Promise<void> => this.#misbehave(call)
    return {
      async write({ byteOffset }, bytes) {
        await misbehave('write')
        if (spoil) bytes.fill(0xaa)
        await gpu.write(buffer, bytes, { byteOffset })
      },
      async *read({ byteOffset, byteLength }) {
        await misbehave('read back')
        yield await gpu.read(buffer, { byteOffset, byteLength })
      },
      adopt: async ({ signal }) => {
        this.calls.push('adopt')
        await this.#misbehave('adopt')
        signal?.throwIfAborted()
        if (stay !== this.#stay) throw new Error('given up meanwhile')
        this.#stay += 1
        this.#settleOn(gpu, buffer, this.progress)
      },
      [Symbol.asyncDispose]: async () => gpu.destroyBuffer(buffer),
    }
  }

  async suspend(): Promise<void> {
    this.calls.push(`suspend ${this.progress}`)
    this.#runs = false
    await this.#misbehave('suspend')
    await this.#turn
  }

  async release({ lost }: { lost: boolean }): Promise<void> {
    this.calls.push(`release${lost ? ' lost' : ''}`)
    this.#stay += 1
    this.#runs = false
    this.#gpu = undefined
  }

  #settleOn(gpu: SimGpu, buffer: SimBuffer, progress: number): void {
    this.#gpu = gpu
    this.#buffer = buffer
    this.#dirty = undefined
    this.#turn = Promise.resolve()
    this.progress = progress
  }

  async #work(stay: number): Promise<void> {
    const { steps, stepMs, perStep, pages, pageBytes } = this.#options
    const goesOn = (): boolean => this.#runs && stay === this.#stay
    try {
      while (goesOn() && this.progress < steps) {
        await this.#inTurn(async () => {
          if (!goesOn()) return
          const step = this.progress
          const gpu = this.#gpu as SimGpu
          const buffer = this.#buffer as SimBuffer
          const touched = pagesOf(step, perStep, pages)
          const kernel = (bytes: (of: SimBuffer) => ArrayBuffer): void => {
            for (const page of touched) change(new Uint32Array(bytes(buffer), page * pageBytes, pageBytes / 4), step)
          }
          await gpu.run(kernel, { flops: stepMs * flopsPerMs })
          if (!goesOn() && stay !== this.#stay) return
          for (const page of touched) this.#dirty?.add(page)
          this.progress += 1
        })
      }
      if (!goesOn()) return
      const bytes = await (this.#gpu as SimGpu).read(this.#buffer as SimBuffer)
      if (stay !== this.#stay) return
      this.result = createHash('sha256').update(bytes).digest('hex')
      this.#resolve()
    } catch {
      // The target is gone; whoever hears of the loss restores elsewhere.
    }
  }

  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(job)
    this.#turn = mine.catch(() => undefined)
    return mine
  }

  async #misbehave(call: PagedCall): Promise<void> {
    const fault = this.#options.fault?.(call)
    if (fault === 'hang') await new Promise(() => undefined)
    if (fault === 'throw') throw new Error(`${call} is broken`)
  }
}
