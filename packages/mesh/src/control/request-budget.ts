/**
 * What one peer may have others keep for it while its requests are worked on: a message of one MiB can be many times as large
 * once it is read. Bulk data travels as chunks, so that requests are small.
 */
const mostBytes = 8 * 1024 * 1024

/** Bytes of the requests of one peer that are worked on, over all its connections. */
export class RequestBudget {
  #bytes = 0

  /** Whether there was room. */
  take(byteLength: number): boolean {
    if (this.#bytes + byteLength > mostBytes) return false
    this.#bytes += byteLength
    return true
  }

  giveBack(byteLength: number): void {
    this.#bytes -= byteLength
  }
}
