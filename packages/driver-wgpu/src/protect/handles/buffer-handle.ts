import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { BufferUsage, MapMode } from '../../flags.ts'
import { asInteger } from '../capture.ts'
import { Handle } from './handle.ts'
import { LabelledHandle } from './plain-handles.ts'
import type { BufferNode, Mapping } from '../nodes/buffer-node.ts'

export class BufferHandle extends LabelledHandle<BufferNode> {
  get size(): number {
    return Handle.node(this).size
  }

  get usage(): number {
    return Handle.node(this).usage
  }

  get mapState(): GPUBufferMapState {
    const { mapping, cancelMap } = Handle.node(this)
    if (mapping !== undefined) return 'mapped'
    return cancelMap === undefined ? 'unmapped' : 'pending'
  }

  async mapAsync(mode: GPUMapModeFlags, offset: number = 0, size?: number): Promise<undefined> {
    const node = Handle.node(this)
    if (!areIntegers(mode, offset, size)) {
      await refusedMap(node, 'unmapped', mode, offset, size)
      return this.mapAsync(...(asIntegers(mode, offset, size) as [number, number, number?]))
    }
    const length = size ?? Math.max(0, node.size - offset)
    if (this.mapState !== 'unmapped' || !isMapAllowed(node, mode, offset, length)) {
      await refusedMap(node, this.mapState, mode, offset, size)
      return undefined
    }
    const cancelled = new Promise<never>((_, reject) => (node.cancelMap = reject))
    // Whoever calls `unmap` first hears of it through the race below, or not at all if that was decided before.
    cancelled.catch(() => {})
    const { cancelMap } = node
    node.core.mappedBuffers.add(node)
    try {
      const content = await Promise.race([cancelled, contentOf(node, mode, offset, length)])
      node.mapping = { mode: mode === MapMode.Read ? 'read' : 'write', offset, size: length, content, ranges: [] }
    } catch (error) {
      if (node.cancelMap === cancelMap) node.core.mappedBuffers.delete(node)
      // As a bare device has it.
      if (EGpuError.is(error, EGpuErrorCode.Closed)) throw new DOMException(error.message, 'AbortError')
      throw error
    } finally {
      if (node.cancelMap === cancelMap) node.cancelMap = undefined
    }
    return undefined
  }

  getMappedRange(offset: number = 0, size?: number): ArrayBuffer {
    const node = Handle.node(this)
    const { mapping } = node
    if (!areIntegers(offset, size)) {
      refuseRange(node, offset, size)
      return this.getMappedRange(...(asIntegers(offset, size) as [number, number?]))
    }
    const length = size ?? Math.max(0, node.size - offset)
    if (mapping === undefined || !isRangeFree(mapping, offset, length)) {
      throw new DOMException('the range is not mapped, not aligned, or was handed out before', 'OperationError')
    }
    const bytes = rangeContent(mapping, offset, length)
    mapping.ranges.push({ offset, bytes })
    return bytes
  }

  unmap(): void {
    const node = Handle.node(this)
    if (node.isDestroyed || node.isRefused) node.real.unmap()
    endMapping(node)
  }

  destroy(): void {
    const node = Handle.node(this)
    endMapping(node)
    if (!node.isDestroyed) node.core.noteDestroyed(node)
    node.isDestroyed = true
    node.real.destroy()
  }
}

/** Mapped from the start: zeros, for the application to fill. */
export function mapAtCreation(node: BufferNode): void {
  node.mapping = { mode: 'write', offset: 0, size: node.size, content: undefined, ranges: [] }
  node.core.mappedBuffers.add(node)
}

/** Whether what was given for numbers can be counted with as it is. */
function areIntegers(...values: readonly unknown[]): boolean {
  return values.every((value) => value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0))
}

/** What the device took, as WebIDL reads it. */
function asIntegers(...values: readonly unknown[]): readonly unknown[] {
  return values.map((value) => (value === undefined ? value : asInteger(value ?? 0)))
}

/** Lets a mapped buffer refuse what may be no numbers, so that the errors are the device's own. */
function refuseRange({ core: { device } }: BufferNode, offset: number, size: number | undefined): void {
  const mapped = device.createBuffer({ size: 8, usage: BufferUsage.CopyDst, mappedAtCreation: true })
  try {
    mapped.getMappedRange(offset, size)
  } catch (error) {
    // Another size would do for another buffer.
    if (error instanceof TypeError) throw error
  } finally {
    mapped.destroy()
  }
}

/** The rules of "GPUBuffer.mapAsync()". */
function isMapAllowed(node: BufferNode, mode: number, offset: number, size: number): boolean {
  if (node.isDestroyed || node.isRefused) return false
  const needed = mode === MapMode.Read ? BufferUsage.MapRead : mode === MapMode.Write ? BufferUsage.MapWrite : 0
  if ((node.usage & needed) === 0) return false
  return offset % 8 === 0 && size % 4 === 0 && offset >= 0 && size >= 0 && offset + size <= node.size
}

/** Lets a buffer that is in the same state refuse it, so that the errors are the device's own. */
async function refusedMap(
  node: BufferNode,
  state: GPUBufferMapState,
  mode: number,
  offset: number,
  size: number | undefined,
): Promise<undefined> {
  if (node.isRefused) return node.real.mapAsync(mode, offset, size)
  const twin = node.makeTwin({ mappedAtCreation: state === 'mapped' })
  if (node.isDestroyed) twin.destroy()
  try {
    if (state === 'pending') twin.mapAsync(mode).catch(() => {})
    return await twin.mapAsync(mode, offset, size)
  } finally {
    twin.destroy()
  }
}

async function contentOf(
  node: BufferNode,
  mode: number,
  offset: number,
  size: number,
): Promise<Uint8Array | undefined> {
  if (mode === MapMode.Read) return node.core.readBack(node, offset, size)
  // The device has to be done with what was written before, as an application counts on for its pace.
  await node.core.confirm()
  return node.hostContent?.subarray(offset, offset + size)
}

function isRangeFree({ offset, size, ranges }: Mapping, from: number, length: number): boolean {
  if (from % 8 !== 0 || length % 4 !== 0 || from < offset || from + length > offset + size) return false
  return ranges.every((range) => from + length <= range.offset || from >= range.offset + range.bytes.byteLength)
}

function rangeContent({ mode, content, offset, size }: Mapping, from: number, length: number): ArrayBuffer {
  if (content === undefined) return new ArrayBuffer(length)
  // What was read back belongs to this mapping alone; what the host wrote is also in the log.
  if (mode === 'read' && length === size) return content.buffer as ArrayBuffer
  return content.slice(from - offset, from - offset + length).buffer
}

function endMapping(node: BufferNode): void {
  node.core.mappedBuffers.delete(node)
  const { cancelMap, mapping } = node
  node.cancelMap = undefined
  node.mapping = undefined
  cancelMap?.(new DOMException('the buffer was unmapped or destroyed before the mapping was done', 'AbortError'))
  if (mapping === undefined) return
  for (const { offset, bytes } of mapping.ranges) {
    // Takes the bytes out of the application's hands, as unmapping does, without copying them.
    const taken = new Uint8Array(structuredClone(bytes, { transfer: [bytes] }))
    if (mapping.mode === 'write' && !node.isDestroyed) node.core.writeMapped(node, offset, taken)
  }
}
