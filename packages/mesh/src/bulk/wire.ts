/**
 * The bulk protocol. The receiver dials, sends a hello of fixed length (magic and one-time token), and then asks for
 * chunks by 32 bytes each, their SHA-256. Answers come in the order of the questions, each with a head of two
 * big-endian 32-bit numbers: kind and length. Nothing that a receiver sends has a length of its own, so a sender never
 * has to believe one.
 */
export const magic: Buffer = Buffer.from('EGPUBLK1', 'latin1')
export const tokenBytes = 32
export const helloBytes: number = magic.byteLength + tokenBytes
export const requestBytes = 32
export const headBytes = 8

export const AnswerKind = {
  /** The token is good; no bytes follow. */
  Welcome: 1,
  /** A chunk; its bytes follow. */
  Chunk: 2,
  /** The chunk asked for cannot be had; a sentence follows. */
  NoChunk: 3,
  /** The connection is over; a sentence follows. */
  Refused: 4,
} as const
export type AnswerKind = (typeof AnswerKind)[keyof typeof AnswerKind]

/** Longer reasons are cut by the sender and not believed by the receiver. */
export const mostReasonBytes = 1_024

export function head(kind: AnswerKind, byteLength: number): Buffer {
  const bytes = Buffer.allocUnsafe(headBytes)
  bytes.writeUInt32BE(kind, 0)
  bytes.writeUInt32BE(byteLength, 4)
  return bytes
}

export function withReason(kind: AnswerKind, reason: string): Buffer {
  const text = Buffer.from(reason).subarray(0, mostReasonBytes)
  return Buffer.concat([head(kind, text.byteLength), text])
}
