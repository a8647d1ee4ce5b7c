import { crc32 } from 'node:zlib'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { messageOf } from '../../failure.ts'
import type { ChunkRef } from '../manifest.ts'
import { chunkPool, NoZstd } from './chunk-pool.ts'

/**
 * The content of a chunk from what is stored of it; rejects with `EGPU_CHECKPOINT_CORRUPT` rather than give a wrong one.
 * `crc`: CRC-32 of `stored`, where it is known.
 */
export async function contentOf(
  chunk: ChunkRef,
  stored: Uint8Array,
  of: string,
  crc: number = crc32(stored),
): Promise<Uint8Array> {
  if (stored.byteLength !== chunk.storedBytes) {
    throw corrupt(`${stored.byteLength} of the ${chunk.storedBytes} bytes of a chunk of ${of} are there`)
  }
  if (crc !== chunk.crc32) throw corrupt(`a chunk of ${of} in ${chunk.pack} was altered (CRC-32)`)
  if (chunk.storedBytes === chunk.byteLength) return stored
  // A frame that says how long it gets cannot take more memory than a chunk may.
  if (contentLength(stored) !== chunk.byteLength)
    throw corrupt(`a chunk of ${of} in ${chunk.pack} is no frame of its length`)
  let bytes: Uint8Array
  try {
    bytes = await chunkPool.expand(new Uint8Array(stored), chunk.byteLength)
  } catch (error) {
    if (!(error instanceof NoZstd)) throw corrupt(`a chunk of ${of} in ${chunk.pack} cannot be decompressed`, error)
    const message = `the checkpoint is compressed, and ${messageOf(error)}`
    throw new EGpuError(EGpuErrorCode.CheckpointFailed, message, { cause: error })
  }
  if (bytes.byteLength !== chunk.byteLength) throw corrupt(`a chunk of ${of} in ${chunk.pack} has the wrong length`)
  return bytes
}

/** What a zstd frame says that its content is long (RFC 8878, 3.1.1.1); `undefined` where it does not say. */
function contentLength(frame: Uint8Array): number | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  if (frame.byteLength < 6 || view.getUint32(0, true) !== 0xfd2f_b528) return undefined
  const descriptor = view.getUint8(4)
  const isSingleSegment = (descriptor & 0x20) !== 0
  const at = 5 + (isSingleSegment ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] ?? 0)
  const size = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
  if (frame.byteLength < at + size) return undefined
  if (size === 1) return view.getUint8(at)
  if (size === 2) return view.getUint16(at, true) + 256
  if (size === 4) return view.getUint32(at, true)
  return size === 8 ? Number(view.getBigUint64(at, true)) : undefined
}

export function corrupt(why: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, `this checkpoint cannot be used: ${why}`, { cause })
}
