/** What the threads beside this one do with a chunk. */
export type Job =
  /** `bytes` lie in shared memory, or are copied. */
  | { readonly kind: 'digest'; readonly bytes: Uint8Array }
  | { readonly kind: 'compress'; readonly bytes: Uint8Array; readonly level: number }
  | { readonly kind: 'expand'; readonly stored: Uint8Array; readonly byteLength: number }

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

export type JobResult = Digest | Compressed | { readonly bytes: Uint8Array<ArrayBuffer> }
