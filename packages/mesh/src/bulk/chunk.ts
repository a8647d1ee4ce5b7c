import { EGpuError, EGpuErrorCode } from '@egpu/core'

/** A piece of something larger, named by its content and by nothing else. */
export interface ChunkRef {
  /** SHA-256 of its bytes, 64 hex digits. */
  readonly id: string
  readonly byteLength: number
}

/** The largest chunk that is sent: what a receiver sets aside per chunk under way. */
export const mostChunkBytes: number = 2 ** 26

/** A name can therefore never lead to a file: it is a hash or it is refused. */
export function isChunkId(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{64}$/.test(value)
}

/** Checks what a peer says a chunk is; `EGPU_MALFORMED_DATA` says what is wrong with it. */
export function asChunkRef(id: unknown, byteLength: unknown): ChunkRef {
  if (!isChunkId(id)) throw malformed(`${JSON.stringify(id)?.slice(0, 80)} is no name of a chunk (a SHA-256 in hex)`)
  if (!Number.isSafeInteger(byteLength) || (byteLength as number) < 1 || (byteLength as number) > mostChunkBytes) {
    throw malformed(`a chunk of ${String(byteLength)} bytes is none: 1 to ${mostChunkBytes} are allowed`)
  }
  return { id, byteLength: byteLength as number }
}

export function malformed(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, message)
}
