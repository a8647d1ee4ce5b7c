import { malformed } from './chunk.ts'
import type { ChunkRef } from './chunk.ts'
import type { ChunkTask } from './lane.ts'

/**
 * A chunk that is put together in its buffer, from one answer or from several: what came before a link was cut stays, and
 * only the rest is asked for again.
 */
export class Assembly<C extends ChunkRef> implements ChunkTask {
  readonly chunk: C
  readonly buffer: Buffer
  filled: number
  /** Of what is in the buffer, what came in this pull. */
  travelled = 0
  readonly #carriers = new Set<string>()
  #suspects: ReadonlySet<string> | undefined

  /** `filled` bytes are in the buffer from an earlier pull. */
  constructor(chunk: C, buffer: Buffer, filled: number) {
    this.chunk = chunk
    this.buffer = buffer
    this.filled = filled
  }

  get bytes(): Buffer {
    return this.buffer.subarray(0, this.filled)
  }

  /** So many bytes of it came over a link. */
  carried(link: string, byteLength: number): void {
    this.travelled += byteLength
    if (byteLength > 0) this.#carriers.add(link)
  }

  /**
   * Its bytes are not what its name says. Once that may be an accident (TCP lets a wrong bit through once in a long while, a
   * part that was kept may have been damaged): all of it is needed anew, from other links if there are any. Throws
   * `EGPU_MALFORMED_DATA` the second time.
   */
  startAfresh(): void {
    if (this.#suspects !== undefined) {
      throw malformed(`the sender sends other bytes than it announced (chunk ${this.chunk.id}, twice)`)
    }
    this.#suspects = new Set(this.#carriers)
    this.clear()
  }

  /** Forgets what came of it. */
  clear(): void {
    this.#carriers.clear()
    this.filled = 0
    this.travelled = 0
  }

  /** Whether a link may carry it, of all those that are not known to be down. */
  suits(link: string, links: readonly string[]): boolean {
    const suspects = this.#suspects
    return suspects === undefined || !suspects.has(link) || links.every((other) => suspects.has(other))
  }
}
