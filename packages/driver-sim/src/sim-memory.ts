import type { SimBuffer } from './sim-gpu.ts'

/** The bytes of one opened target. */
export class SimMemory {
  readonly #bytes = new Map<SimBuffer, ArrayBuffer>()
  #usedBytes = 0

  get usedBytes(): number {
    return this.#usedBytes
  }

  create(byteLength: number, label: string | undefined): SimBuffer {
    const buffer: SimBuffer = Object.freeze({ byteLength, label })
    this.#bytes.set(buffer, new ArrayBuffer(byteLength))
    this.#usedBytes += byteLength
    return buffer
  }

  /** Throws `TypeError` for a buffer that is not (or no longer) here. */
  bytesOf(buffer: SimBuffer): ArrayBuffer {
    const bytes = this.#bytes.get(buffer)
    if (bytes === undefined) throw new TypeError(`${describe(buffer)} was destroyed or belongs to another device`)
    return bytes
  }

  destroy(buffer: SimBuffer): void {
    const bytes = this.#bytes.get(buffer)
    if (bytes === undefined) return
    this.#bytes.delete(buffer)
    this.#usedBytes -= bytes.byteLength
    detach(bytes)
  }

  /** Everything is gone; views that somebody kept are empty from now on. */
  clear(): void {
    for (const bytes of this.#bytes.values()) detach(bytes)
    this.#bytes.clear()
    this.#usedBytes = 0
  }
}

/** Empties an ArrayBuffer and every view of it. (`ArrayBuffer.prototype.transfer` needs Node 21.) */
function detach(bytes: ArrayBuffer): void {
  structuredClone(bytes, { transfer: [bytes] })
}

export function describe(buffer: SimBuffer): string {
  return buffer.label === undefined ? `a buffer of ${buffer.byteLength} bytes` : `buffer "${buffer.label}"`
}
