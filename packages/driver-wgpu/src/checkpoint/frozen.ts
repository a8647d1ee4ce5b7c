import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, FrozenState, StatePart, StateRange } from '@egpu/core'
import { ChangedReader } from './changed-reader.ts'
import type { DeviceGuard } from './device-guard.ts'
import { drain, drainInto } from './ring.ts'
import type { Ring, Span } from './ring.ts'
import type { Shadow } from './shadow-pool.ts'

/** A frozen copy on the device, to be read while the work goes on. */
export interface FrozenBuffers extends FrozenState {
  readRange(range: StateRange, options?: AbortOptions): AsyncIterable<Uint8Array>
  /**
   * Reads one part into memory of the caller's, which has exactly its size (anything else is a `TypeError`). Memory that
   * was used before is filled several times faster than `read` can make new one. Rejects like `read`; then the memory
   * holds nothing of use. It must not be detached before.
   */
  drainInto(part: string, destination: Uint8Array, options?: AbortOptions): Promise<void>
}

export interface FrozenOptions {
  readonly guard: DeviceGuard
  readonly ring: Ring
  readonly shadow: Shadow
  readonly parts: readonly StatePart[]
  readonly progress: number
  readonly changed: ReadonlyMap<string, readonly Span[]> | undefined
  readonly release: () => void
}

export function frozenBuffers(options: FrozenOptions): FrozenBuffers {
  const { guard, ring, shadow, parts, progress, changed } = options
  let isReleased = false
  const copyOf = (part: string): GPUBuffer => {
    const copy = shadow.get(part)
    if (copy === undefined) throw new TypeError(`no part ${part}; there are: ${[...shadow.keys()].join(', ')}`)
    if (isReleased) throw new EGpuError(EGpuErrorCode.Closed, 'the frozen state was released', { driver: 'wgpu' })
    return copy
  }
  const readers = new Map(
    [...(changed ?? [])].map(([part, spans]) => [
      part,
      new ChangedReader(guard, ring, shadow.get(part) as GPUBuffer, spans),
    ]),
  )
  return {
    progress,
    parts,
    changed: changed === undefined ? undefined : rangesOf(changed),
    async *read(part, { signal } = {}) {
      yield* drain(guard, ring, copyOf(part), signal)
    },
    async *readRange({ part, byteOffset, byteLength }, { signal } = {}) {
      const copy = copyOf(part)
      const end = byteOffset + byteLength
      if (!(byteOffset >= 0 && byteLength >= 0 && end <= copy.size)) {
        throw new RangeError(`part ${part} has ${copy.size} bytes: there is no range ${byteOffset} to ${end}`)
      }
      const packed = await readers.get(part)?.take({ offset: byteOffset, byteLength }, signal)
      if (packed !== undefined) {
        yield packed
        return
      }
      // Copies on the device begin and end at multiples of 4.
      const offset = byteOffset - (byteOffset % 4)
      const aligned = { offset, byteLength: Math.ceil((end - offset) / 4) * 4 }
      let at = offset
      for await (const piece of drain(guard, ring, copy, signal, aligned)) {
        yield piece.subarray(Math.max(0, byteOffset - at), Math.min(piece.byteLength, end - at))
        at += piece.byteLength
      }
    },
    async drainInto(part, destination, { signal } = {}) {
      const copy = copyOf(part)
      if (destination.byteLength !== copy.size) {
        throw new TypeError(`part ${part} has ${copy.size} bytes, not the ${destination.byteLength} of its destination`)
      }
      await drainInto(guard, ring, copy, destination, signal)
    },
    async [Symbol.asyncDispose]() {
      if (!isReleased) options.release()
      isReleased = true
    },
  }
}

function rangesOf(changed: ReadonlyMap<string, readonly Span[]>): readonly StateRange[] {
  return [...changed].flatMap(([part, spans]) =>
    spans.map(({ offset, byteLength }) => ({ part, byteOffset: offset, byteLength })),
  )
}
