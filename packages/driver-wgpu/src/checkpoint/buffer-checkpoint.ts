import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, FrozenState, OpenTarget, SavedState, StatePart } from '@egpu/core'
import { BufferUsage } from '../flags.ts'
import { DeviceGuard } from './device-guard.ts'
import { drain, fill, Ring } from './ring.ts'
import type { RingOptions } from './ring.ts'

/** Saves and restores a fixed set of buffers on one device. Closing it frees its staging memory, not the buffers. */
export interface BufferCheckpoint extends Disposable {
  /**
   * Copies every buffer on the device, in one submit: work submitted before is in the copy, work submitted after is
   * not, and neither has to wait for the other. The copy is read while the work goes on, and freed by disposing of it.
   * Reading rejects with `EGPU_DEVICE_LOST` when the device went first; nothing of a partial copy may be kept.
   */
  freeze(progress: number): FrozenState
  /**
   * Brings a saved state into the buffers, and resolves once it is really there. Rejects with
   * `EGPU_CHECKPOINT_CORRUPT` when the state has not exactly these buffers and sizes; then they hold no valid state.
   */
  restore(state: SavedState, options?: AbortOptions): Promise<void>
  close(): void
}

/**
 * Declares what makes up a workload's state: named buffers with usages `COPY_SRC` and `COPY_DST`, sizes in multiples
 * of 4 bytes; anything else is a `TypeError`.
 */
export function checkpointBuffers(
  target: OpenTarget<GPUDevice>,
  buffers: Readonly<Record<string, GPUBuffer>>,
  options: RingOptions = {},
): BufferCheckpoint {
  const declared = Object.entries(buffers)
  for (const [name, buffer] of declared) requireCopyable(name, buffer)
  const guard = new DeviceGuard(target.handle, target.target.name, target.lost)
  const reading = new Ring(guard, 'read', options)
  const writing = new Ring(guard, 'write', options)
  const shadows = new ShadowPool(guard.device, declared)
  const parts: readonly StatePart[] = declared.map(([name, { size }]) => ({ name, byteLength: size }))

  const close = (): void => {
    guard.close()
    reading.close()
    writing.close()
    shadows.close()
  }

  return {
    freeze(progress) {
      guard.check()
      const shadow = shadows.acquire()
      const encoder = guard.device.createCommandEncoder({ label: 'egpu freeze' })
      for (const [name, buffer] of declared) {
        encoder.copyBufferToBuffer(buffer, 0, shadow.get(name) as GPUBuffer, 0, buffer.size)
      }
      guard.device.queue.submit([encoder.finish()])
      let isReleased = false
      return {
        progress,
        parts,
        async *read(part, { signal } = {}) {
          const copy = shadow.get(part)
          if (copy === undefined) throw new TypeError(`no part ${part}; there are: ${[...shadow.keys()].join(', ')}`)
          if (isReleased) throw new EGpuError(EGpuErrorCode.Closed, 'the frozen state was released')
          yield* drain(guard, reading, copy, signal)
        },
        async [Symbol.asyncDispose]() {
          if (!isReleased) shadows.release(shadow)
          isReleased = true
        },
      }
    },

    async restore(state, { signal } = {}) {
      signal?.throwIfAborted()
      guard.check()
      requireSameParts(state.parts, parts)
      for (const [name, buffer] of declared) {
        const written = await fill(guard, writing, buffer, state.read(name, { signal }), signal)
        if (written !== buffer.size) throw corrupt(`part ${name} gave ${written} bytes instead of ${buffer.size}`)
      }
      await guard.confirm(signal)
    },

    close,
    [Symbol.dispose]: close,
  }
}

/** Device-side copies of the declared buffers, used again once they were read. */
class ShadowPool {
  readonly #device: GPUDevice
  readonly #declared: readonly (readonly [string, GPUBuffer])[]
  readonly #free: ReadonlyMap<string, GPUBuffer>[] = []
  readonly #all: GPUBuffer[] = []

  constructor(device: GPUDevice, declared: readonly (readonly [string, GPUBuffer])[]) {
    this.#device = device
    this.#declared = declared
  }

  acquire(): ReadonlyMap<string, GPUBuffer> {
    return this.#free.pop() ?? this.#make()
  }

  release(shadow: ReadonlyMap<string, GPUBuffer>): void {
    this.#free.push(shadow)
  }

  close(): void {
    for (const buffer of this.#all) buffer.destroy()
  }

  #make(): ReadonlyMap<string, GPUBuffer> {
    const usage = BufferUsage.CopySrc | BufferUsage.CopyDst
    const copies = this.#declared.map(([name, { size }]) => {
      return [name, this.#device.createBuffer({ label: `egpu shadow of ${name}`, size, usage })] as const
    })
    this.#all.push(...copies.map(([, copy]) => copy))
    return new Map(copies)
  }
}

function requireCopyable(name: string, buffer: GPUBuffer): void {
  if ((buffer.usage & BufferUsage.CopySrc) === 0) throw new TypeError(`buffer ${name} lacks usage COPY_SRC`)
  if ((buffer.usage & BufferUsage.CopyDst) === 0) throw new TypeError(`buffer ${name} lacks usage COPY_DST`)
  if (buffer.size % 4 !== 0) throw new TypeError(`buffer ${name} has ${buffer.size} bytes, not a multiple of 4`)
}

function requireSameParts(given: readonly StatePart[], wanted: readonly StatePart[]): void {
  const describe = (parts: readonly StatePart[]): string =>
    parts
      .map(({ name, byteLength }) => `${name} (${byteLength} bytes)`)
      .sort()
      .join(', ')
  if (describe(given) !== describe(wanted)) {
    throw corrupt(`the saved state has other parts: ${describe(given)} instead of ${describe(wanted)}`)
  }
}

function corrupt(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.CheckpointCorrupt, message, { driver: 'wgpu' })
}
