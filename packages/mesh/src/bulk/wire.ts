/**
 * The bulk protocol. The receiver dials, sends a hello of fixed length (magic and one-time token), and then asks for
 * chunks: 32 bytes of SHA-256 and a big-endian 32-bit number, from which byte of the chunk on. Answers come in the order
 * of the questions, each with a head of two big-endian 32-bit numbers: kind and length. Nothing that a receiver sends has
 * a length of its own, so a sender never has to believe one.
 *
 * Version 1 asked by the SHA-256 alone, always for whole chunks. Senders take both and say the highest they speak in
 * their `BulkAddress`.
 */
export const bulkVersion = 2

export interface Dialect {
  readonly version: number
  readonly magic: Buffer
  readonly requestBytes: number
}

/** All have a magic of one length. */
const dialects: readonly Dialect[] = [
  { version: 1, magic: Buffer.from('EGPUBLK1', 'latin1'), requestBytes: 32 },
  { version: bulkVersion, magic: Buffer.from('EGPUBLK2', 'latin1'), requestBytes: 36 },
]

export const magicBytes = 8
export const tokenBytes = 32
export const helloBytes: number = magicBytes + tokenBytes

/** How to speak to a sender that speaks so high. */
export function dialectOf(version: number): Dialect {
  return dialects.findLast((dialect) => dialect.version <= version) ?? (dialects[0] as Dialect)
}

/** What a hello begins with says which version the receiver speaks; `undefined` when it is none that is known. */
export function dialectSpoken(hello: Uint8Array): Dialect | undefined {
  return dialects.find(({ magic }) => magic.equals(hello.subarray(0, magicBytes)))
}

export interface ChunkRequest {
  readonly id: string
  /** From which byte on. */
  readonly from: number
}

export function encodeRequest({ requestBytes }: Dialect, { id, from }: ChunkRequest): Buffer {
  const bytes = Buffer.alloc(requestBytes)
  bytes.write(id, 'hex')
  if (requestBytes > 32) bytes.writeUInt32BE(from, 32)
  return bytes
}

export function decodeRequest({ requestBytes }: Dialect, bytes: Buffer): ChunkRequest {
  return { id: bytes.toString('hex', 0, 32), from: requestBytes > 32 ? bytes.readUInt32BE(32) : 0 }
}

export const headBytes = 8

export const AnswerKind = {
  /** The token is good; no bytes follow. */
  Welcome: 1,
  /** A chunk; its bytes from where they were asked for follow. */
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
