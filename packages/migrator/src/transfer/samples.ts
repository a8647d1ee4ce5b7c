import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { StagedState, StateRange } from '@egpu/core'

/** So many small windows of what was sent are read back: a copy that went wrong goes wrong by the page. */
const windowBytes = 4096
const mostWindows = 64

interface Sample {
  readonly range: StateRange
  readonly bytes: Uint8Array
}

/** Remembers a little of everything that was sent, to be compared with what arrived. */
export class Samples {
  #samples: Sample[] = []
  #seen = 0

  /** Later bytes replace earlier ones in the same place. */
  note(range: StateRange, bytes: Uint8Array): void {
    this.#samples = this.#samples.filter((sample) => !overlap(sample.range, range))
    this.#seen += 1
    const byteLength = Math.min(windowBytes, bytes.byteLength)
    const sample = { range: { ...range, byteLength }, bytes: bytes.slice(0, byteLength) }
    if (this.#samples.length < mostWindows) this.#samples.push(sample)
    // Every one of those seen is as likely to be kept, by a sequence that does not repeat (golden ratio).
    else if ((this.#seen * 0.618_033_988_75) % 1 < mostWindows / this.#seen) {
      this.#samples[this.#seen % mostWindows] = sample
    }
  }

  /** Rejects with `EGPU_CHECKPOINT_CORRUPT` when something else is there than was sent. */
  async verify(staged: StagedState, signal: AbortSignal): Promise<void> {
    for (const { range, bytes } of this.#samples) {
      let at = 0
      for await (const chunk of staged.read(range, { signal })) {
        for (let i = 0; i < chunk.byteLength; i += 1) if (chunk[i] !== bytes[at + i]) throw differs(range, at + i)
        at += chunk.byteLength
      }
      if (at !== bytes.byteLength) throw differs(range, at)
    }
  }
}

function overlap(a: StateRange, b: StateRange): boolean {
  return a.part === b.part && a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength
}

function differs({ part, byteOffset }: StateRange, at: number): EGpuError {
  const message = `byte ${byteOffset + at} of part '${part}' is not on the target what was sent there`
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, message)
}
