import type { LogEntry } from './entry.ts'

/** Everything done with the device since the last checkpoint, in order. */
export class Log {
  #entries: LogEntry[] = []
  #bytes = 0
  #cutSeq = 0

  get bytes(): number {
    return this.#bytes
  }

  get length(): number {
    return this.#entries.length
  }

  /** An entry that comes so late that a checkpoint has it by now is none. */
  add(entry: LogEntry): void {
    if (entry.seq < this.#cutSeq) return
    this.#entries.push(entry)
    this.#bytes += entry.bytes
  }

  /** A snapshot; what is added later is not in it. Not sorted: an entry may have been added late. */
  all(): readonly LogEntry[] {
    return [...this.#entries]
  }

  /** Drops what came before `seq`: a checkpoint has it. */
  cut(seq: number): void {
    this.#cutSeq = seq
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
