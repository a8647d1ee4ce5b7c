import { MapMode } from '../flags.ts'
import type { DeviceGuard } from './device-guard.ts'
import { copyBytes } from './host-copy.ts'
import { whileMapped } from './mapped-memory.ts'
import type { Ring } from './ring.ts'

/** A staging buffer that is being filled. */
interface Slot {
  readonly buffer: GPUBuffer
  readonly mapped: Uint8Array
  readonly copies: Promise<void>[]
  filled: number
}

/**
 * Writes bytes that arrive in pieces of any size into a device buffer, and returns how many there were; once there are
 * more than fit it stops reading. The pieces must stay as they are until it resolves.
 */
export async function fill(
  guard: DeviceGuard,
  ring: Ring,
  destination: GPUBuffer,
  pieces: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let total = 0
  let slot: Slot | undefined
  const flushes: Promise<void>[] = []
  const flush = (full: Slot): void => {
    const flushed = upload(guard, ring, destination, full, total - full.filled)
    // Heard of at the end; a loss is found there too.
    flushed.catch(() => {})
    flushes.push(flushed)
    slot = undefined
  }
  try {
    for await (const piece of pieces) {
      for (let taken = 0; taken < piece.byteLength;) {
        if (total + piece.byteLength - taken > destination.size) return total + piece.byteLength - taken
        slot ??= await open(guard, ring, signal)
        if (slot.buffer.mapState !== 'mapped') throw guard.loss()
        const size = Math.min(ring.chunkBytes - slot.filled, piece.byteLength - taken)
        const place = slot.mapped.subarray(slot.filled, slot.filled + size)
        const part = piece.subarray(taken, taken + size)
        const copy = whileMapped(guard.device, () => copyBytes(place, part))
        copy.catch(() => {})
        slot.copies.push(copy)
        taken += size
        total += size
        slot.filled += size
        if (slot.filled === ring.chunkBytes) flush(slot)
      }
    }
    if (slot !== undefined && slot.filled % 4 === 0) flush(slot)
    await Promise.all(flushes)
    return total
  } finally {
    await Promise.allSettled(flushes)
    if (slot !== undefined) {
      await Promise.allSettled(slot.copies)
      ring.release(slot.buffer)
    }
  }
}

async function open(guard: DeviceGuard, ring: Ring, signal: AbortSignal | undefined): Promise<Slot> {
  const buffer = await ring.acquire()
  try {
    await ring.pace.take(ring.chunkBytes, { signal })
    guard.check()
    await guard.map(buffer, MapMode.Write, signal)
    return { buffer, mapped: new Uint8Array(buffer.getMappedRange()), copies: [], filled: 0 }
  } catch (error) {
    ring.release(buffer)
    throw error
  }
}

async function upload(
  guard: DeviceGuard,
  ring: Ring,
  destination: GPUBuffer,
  slot: Slot,
  offset: number,
): Promise<void> {
  try {
    await Promise.all(slot.copies)
    slot.buffer.unmap()
    const encoder = guard.device.createCommandEncoder()
    encoder.copyBufferToBuffer(slot.buffer, 0, destination, offset, slot.filled)
    guard.device.queue.submit([encoder.finish()])
  } finally {
    ring.release(slot.buffer)
  }
}
