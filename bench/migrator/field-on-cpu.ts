import { RuntimeKind } from '@egpu/core'
import type { Checkpointable, FrozenState, OpenTarget, SavedState, WorkloadNeeds } from '@egpu/core'

const cells = 2 ** 24
const bandCells = 2 ** 19
const steps = 30_000

/** A field of 64 MiB that one thread works through, a band of it at each step, and that has to be copied to be saved. */
export class FieldOnCpu implements Checkpointable {
  readonly id = 'field-on-cpu'
  readonly needs: WorkloadNeeds = { runtimes: [RuntimeKind.Cpu], memoryBytes: cells * 8 }
  readonly finished: Promise<void>
  progress = 0
  #done: () => void = () => undefined
  #field = new Float32Array(cells)
  #runs = false

  constructor() {
    this.finished = new Promise((resolve) => {
      this.#done = resolve
    })
  }

  async restore(_target: OpenTarget, state: SavedState | undefined): Promise<void> {
    if (state === undefined) return
    const bytes = new Uint8Array(this.#field.buffer)
    let at = 0
    for await (const piece of state.read('field')) {
      bytes.set(piece, at)
      at += piece.byteLength
    }
    this.progress = state.progress
  }

  resume(): void {
    this.#runs = true
    void this.#work()
  }

  async suspend(): Promise<void> {
    this.#runs = false
  }

  async release(): Promise<void> {
    this.#runs = false
  }

  async freeze(): Promise<FrozenState> {
    const copy = new Uint8Array(this.#field.slice().buffer)
    return {
      progress: this.progress,
      parts: [{ name: 'field', byteLength: copy.byteLength }],
      async *read() {
        for (let at = 0; at < copy.byteLength; at += 2 ** 20) yield copy.subarray(at, at + 2 ** 20)
      },
      async [Symbol.asyncDispose]() {},
    }
  }

  async #work(): Promise<void> {
    while (this.#runs && this.progress < steps) {
      const from = (this.progress * bandCells) % cells
      for (let i = from; i < from + bandCells; i += 1) {
        this.#field[i] = Math.sqrt((this.#field[i] as number) + i + this.progress)
      }
      this.progress += 1
      // Whoever wants to freeze it has a turn between two steps.
      await new Promise(setImmediate)
    }
    if (this.#runs) this.#done()
  }
}
