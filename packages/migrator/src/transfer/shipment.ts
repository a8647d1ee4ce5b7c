import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock, FrozenState, StagedState, StatePart, StateRange, TransferProgress } from '@egpu/core'
import { RangeSet } from './range-set.ts'
import { Samples } from './samples.ts'

/** As often as a person wants to see it move. */
const tellEveryMs = 250

export interface ShipmentOptions {
  readonly clock: Clock
  readonly parts: readonly StatePart[]
  readonly staged: StagedState
  readonly onProgress: (progress: TransferProgress) => void
}

/** State on its way from a freeze to the next target, as often as it takes. */
export class Shipment {
  readonly due: RangeSet
  readonly samples: Samples = new Samples()
  readonly #options: ShipmentOptions
  readonly #parts: ReadonlyMap<string, number>
  #sent = 0
  #sendingMs = 0
  #toldAt = -Infinity

  constructor(options: ShipmentOptions) {
    this.#options = options
    this.#parts = new Map(options.parts.map(({ name, byteLength }) => [name, byteLength]))
    this.due = new RangeSet(options.parts)
  }

  get sentBytes(): number {
    return this.#sent
  }

  /** How fast it goes, reading and writing together; `undefined` before anything was sent. */
  get bytesPerMs(): number | undefined {
    return this.#sendingMs > 0 ? this.#sent / this.#sendingMs : undefined
  }

  /** Sends all that is due, from a freeze; the next bytes are read while those before are written. */
  async send(frozen: FrozenState, signal: AbortSignal): Promise<void> {
    this.#checkParts(frozen)
    const ranges = this.due.take()
    const total = this.#sent + ranges.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const startedAt = this.#options.clock.now()
    const before = this.#sendingMs
    let writing: Promise<void> = Promise.resolve()
    try {
      for (const range of ranges) {
        let at = 0
        for await (const chunk of bytesOf(frozen, range, signal)) {
          signal.throwIfAborted()
          const target = { part: range.part, byteOffset: range.byteOffset + at, byteLength: chunk.byteLength }
          at += chunk.byteLength
          if (at > range.byteLength) throw lied(range, at)
          // Whoever reads may reuse the bytes once it is asked for the next.
          const bytes = chunk.slice()
          this.samples.note(target, bytes)
          await writing
          writing = this.#options.staged.write(target, bytes, { signal })
          writing.catch(() => undefined)
          this.#sent += bytes.byteLength
          this.#sendingMs = before + this.#options.clock.now() - startedAt
          this.#tell(total)
        }
        if (at !== range.byteLength) throw lied(range, at)
      }
      await writing
      this.#sendingMs = before + this.#options.clock.now() - startedAt
    } catch (error) {
      // What was taken may or may not have arrived: it is due again.
      this.due.add(ranges)
      await writing.catch(() => undefined)
      throw error
    }
  }

  #checkParts({ parts }: FrozenState): void {
    const isSame =
      parts.length === this.#parts.size && parts.every((part) => this.#parts.get(part.name) === part.byteLength)
    if (isSame) return
    throw new EGpuError(EGpuErrorCode.WorkloadFailed, 'the parts of the state changed while it was being moved')
  }

  #tell(bytesTotal: number): void {
    const now = this.#options.clock.now()
    if (now - this.#toldAt < tellEveryMs) return
    this.#toldAt = now
    const rate = this.bytesPerMs
    const etaMs = rate === undefined ? undefined : (bytesTotal - this.#sent) / rate
    this.#options.onProgress({ bytesDone: this.#sent, bytesTotal, etaMs })
  }
}

async function* bytesOf(frozen: FrozenState, range: StateRange, signal: AbortSignal): AsyncIterable<Uint8Array> {
  if (frozen.readRange !== undefined) {
    yield* frozen.readRange(range, { signal })
    return
  }
  const end = range.byteOffset + range.byteLength
  let at = 0
  for await (const chunk of frozen.read(range.part, { signal })) {
    const from = Math.max(0, range.byteOffset - at)
    const to = Math.min(chunk.byteLength, end - at)
    if (to > from) yield chunk.subarray(from, to)
    at += chunk.byteLength
    if (at >= end && end < at) return
  }
}

function lied({ part, byteLength }: StateRange, got: number): EGpuError {
  const message = `the state gave ${got} bytes where it declared ${byteLength} of its part '${part}'`
  return new EGpuError(EGpuErrorCode.WorkloadFailed, message)
}
