import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** Most a frame may hold before the other side has proved who it is, and after. */
export const frameLimit: { readonly hello: number; readonly peer: number } = { hello: 16 * 1024, peer: 1024 * 1024 }

const headerBytes = 4

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

/** Cuts a byte stream into messages. Never holds more than one frame's limit of bytes that are not a message yet. */
export class FrameReader {
  /** Rises once the other side is known. */
  limit: number
  #chunks: Buffer[] = []
  #held = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** Whether a frame has begun that has not ended. */
  get isWithin(): boolean {
    return this.#held > 0
  }

  /** Every message that `chunk` completes. Throws `EGPU_MALFORMED_DATA` on what is no message; the stream is then over. */
  *read(chunk: Buffer): Generator<unknown> {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    for (;;) {
      if (this.#held < headerBytes) return
      const length = this.#peekLength()
      if (length === 0 || length > this.limit)
        throw malformed(`a frame of ${length} bytes; from 1 to ${this.limit} are allowed`)
      if (this.#held < headerBytes + length) return
      const frame = this.#take(headerBytes + length)
      yield parse(frame.subarray(headerBytes))
    }
  }

  #peekLength(): number {
    const [first] = this.#chunks as [Buffer]
    if (first.length >= headerBytes) return first.readUInt32BE()
    this.#chunks = [Buffer.concat(this.#chunks)]
    return (this.#chunks[0] as Buffer).readUInt32BE()
  }

  #take(length: number): Buffer {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    const rest = all.subarray(length)
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#held = rest.length
    return all.subarray(0, length)
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
