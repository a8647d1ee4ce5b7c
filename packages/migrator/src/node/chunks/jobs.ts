/** What the threads beside this one do with chunks. */
export type Job =
  /** `bytes` lie in shared memory, or are copied. */
  | { readonly kind: 'digest'; readonly bytes: Uint8Array }
  | { readonly kind: 'compress'; readonly bytes: Uint8Array; readonly level: number }
  | { readonly kind: 'expand'; readonly stored: Uint8Array; readonly byteLength: number }
  | ReadJob

/** From the file `fd` into the start of `bytes`, which are handed over: pieces of these lengths, one behind the other. */
export interface ReadJob {
  readonly kind: 'read'
  readonly fd: number
  readonly offset: number
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly lengths: readonly number[]
}

export interface Digest {
  readonly crc32: number
  /** Hex. */
  readonly sha256: string
}

/** One zstd frame. */
export interface Compressed {
  readonly stored: Uint8Array<ArrayBuffer>
  /** Of `stored`. */
  readonly crc32: number
}

export interface ReadBack {
  /** The memory that was handed over. */
  readonly bytes: Uint8Array<ArrayBuffer>
  /** How many the file had. */
  readonly count: number
  /** CRC-32 of each piece, where all are there. */
  readonly crcs: readonly number[]
}

export type JobResult = Digest | Compressed | ReadBack | { readonly bytes: Uint8Array<ArrayBuffer> }
