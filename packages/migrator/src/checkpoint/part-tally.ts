import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { SavedState, StatePart } from '@egpu/core'

/** Holds the bytes of a checkpoint against what was declared: each part once, in order, neither short nor long. */
export class PartTally {
  readonly parts: readonly StatePart[]
  #index = 0
  #seen = 0

  /**
   * Throws `EGPU_WORKLOAD_FAILED` for what cannot be: no name, a repeated one, a length that is not a count of bytes, a progress that
   * is no number and so could not be told again.
   */
  constructor({ progress, parts }: Pick<SavedState, 'progress' | 'parts'>) {
    if (!Number.isFinite(progress)) throw broken(`the state says that its progress is ${progress}`)
    const names = new Set<string>()
    for (const { name, byteLength } of parts) {
      if (typeof name !== 'string' || name === '') throw broken('the state has a part whose name is no text')
      if (names.has(name)) throw broken(`the state names its part '${name}' twice`)
      if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
        throw broken(`the state declares ${byteLength} bytes for its part '${name}'`)
      }
      names.add(name)
    }
    this.parts = parts
  }

  add(part: string, byteLength: number): void {
    this.#skipFinished(part)
    const expected = this.parts[this.#index]
    if (expected?.name !== part) {
      throw broken(
        `bytes of part '${part}' came where ${expected === undefined ? 'no more' : `'${expected.name}'`} was due`,
      )
    }
    this.#seen += byteLength
    if (this.#seen > expected.byteLength) {
      throw broken(`part '${part}' has more than the ${expected.byteLength} bytes it declared`)
    }
  }

  /** How much of a part has come so far. */
  seenOf(part: string): number {
    const expected = this.parts[this.#index]
    return expected?.name === part ? this.#seen : 0
  }

  /** Throws unless everything declared has come. */
  finish(): void {
    this.#skipFinished(undefined)
    const missing = this.parts[this.#index]
    if (missing === undefined) return
    throw broken(`part '${missing.name}' ended after ${this.#seen} of the ${missing.byteLength} bytes it declared`)
  }

  #skipFinished(next: string | undefined): void {
    for (;;) {
      const part = this.parts[this.#index]
      if (part === undefined || part.name === next || this.#seen < part.byteLength) return
      this.#index += 1
      this.#seen = 0
    }
  }
}

function broken(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.WorkloadFailed, message)
}
