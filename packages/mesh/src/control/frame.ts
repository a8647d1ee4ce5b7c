import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** Most a frame may hold before the other side has proved who it is, and after. */
export const frameLimit: { readonly hello: number; readonly peer: number } = { hello: 16 * 1024, peer: 1024 * 1024 }

const headerBytes = 4
const nothing = Buffer.alloc(0)

/** One message on the wire: its length in 4 bytes, highest first, then JSON in UTF-8. */
export function encodeFrame(message: unknown, limit: number): Buffer {
  const body = Buffer.from(JSON.stringify(message))
  if (body.length > limit)
    throw new EGpuError(
      EGpuErrorCode.MalformedData,
      `a message of ${body.length} bytes is above the limit of ${limit}; move bulk data as chunks`,
    )
  const frame = Buffer.allocUnsafe(headerBytes + body.length)
  frame.writeUInt32BE(body.length)
  body.copy(frame, headerBytes)
  return frame
}

/**
 * Cuts a byte stream into messages. Never holds more than one frame's limit of bytes that are not a message yet, and none of
 * the chunks they came in: a frame sent byte by byte costs no more than one that comes at once.
 */
export class FrameReader {
  /** Rises once the other side is known. */
  limit: number
  /** What is held are its first bytes. */
  #buffer: Buffer = nothing
  #held = 0
  #messageBytes = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** Whether a frame has begun that has not ended. */
  get isWithin(): boolean {
    return this.#held > 0
  }

  /** Length of the message that was read last. */
  get messageBytes(): number {
    return this.#messageBytes
  }

  /** Every message that `chunk` completes. Throws `EGPU_MALFORMED_DATA` on what is no message; the stream is then over. */
  *read(chunk: Buffer): Generator<unknown> {
    let bytes = this.#held === 0 ? chunk : this.#append(chunk)
    for (let length = this.#lengthIn(bytes); bytes.length >= headerBytes + length; length = this.#lengthIn(bytes)) {
      this.#messageBytes = length
      yield parse(bytes.subarray(headerBytes, headerBytes + length))
      bytes = bytes.subarray(headerBytes + length)
    }
    this.#keep(bytes)
  }

  /** Of the frame that begins there; `Infinity` until its header is there. */
  #lengthIn(bytes: Buffer): number {
    if (bytes.length < headerBytes) return Number.POSITIVE_INFINITY
    const length = bytes.readUInt32BE()
    if (length === 0 || length > this.limit)
      throw malformed(`a frame of ${length} bytes; from 1 to ${this.limit} are allowed`)
    return length
  }

  /** Twice as large each time it is full. */
  #append(chunk: Buffer): Buffer {
    const held = this.#held + chunk.length
    if (held > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(held, 2 * this.#buffer.length))
      this.#buffer.copy(larger, 0, 0, this.#held)
      this.#buffer = larger
    }
    chunk.copy(this.#buffer, this.#held)
    this.#held = held
    return this.#buffer.subarray(0, held)
  }

  #keep(rest: Buffer): void {
    if (rest.length === this.#held) return
    this.#buffer = Buffer.from(rest)
    this.#held = rest.length
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as unknown
  } catch {
    throw malformed('a frame that is not JSON')
  }
}

function malformed(what: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, `the other side sent ${what}`)
}
