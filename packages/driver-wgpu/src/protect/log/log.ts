import type { LogEntry } from './entry.ts'

/** Everything done with the device since the last checkpoint, in order. */
export class Log {
  #entries: LogEntry[] = []
  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  get length(): number {
    return this.#entries.length
  }

  add(entry: LogEntry): void {
    this.#entries.push(entry)
    this.#bytes += entry.bytes
  }

  /** A snapshot; what is added later is not in it. Not sorted: an entry may have been added late. */
  all(): readonly LogEntry[] {
    return [...this.#entries]
  }

  /** Drops what came before `seq`: a checkpoint has it. */
  cut(seq: number): void {
    const kept: LogEntry[] = []
    for (const entry of this.#entries) {
      if (entry.seq >= seq) {
        kept.push(entry)
        continue
      }
      this.#bytes -= entry.bytes
      entry.forget?.()
    }
    this.#entries = kept
  }
}
