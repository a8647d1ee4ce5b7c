import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, OpenTarget, SavedState, StatePart } from '@egpu/core'
import { ChangeFinder } from './change-finder.ts'
import type { Found } from './change-finder.ts'
import { DeviceGuard } from './device-guard.ts'
import { fill } from './fill.ts'
import { frozenBuffers } from './frozen.ts'
import type { FrozenBuffers } from './frozen.ts'
import { describeResource } from './resource.ts'
import type { Resource, Saveable } from './resource.ts'
import { Ring, split } from './ring.ts'
import type { RingOptions, Span } from './ring.ts'
import { ShadowPool } from './shadow-pool.ts'
import type { Shadow } from './shadow-pool.ts'

/** Saves and restores a fixed set of buffers and textures on one device. Closing it frees its own memory, not theirs. */
export interface BufferCheckpoint extends Disposable {
  /**
   * Copies everything on the device, in one submit: work submitted before is in the copy, work submitted after is not,
   * and neither has to wait for the other. The copy is read while the work goes on, and freed by disposing of it.
   * Reading rejects with `EGPU_DEVICE_LOST` when the device went first; nothing of a partial copy may be kept.
   */
  freeze(progress: number): FrozenBuffers
  /**
   * The same, and finds out on the device what differs from the freeze before: `changed` names it to 4 KiB, and only
   * that has to cross the cable. Undefined when there is nothing to compare with (the first time, after a `restore`, after
   * a plain `freeze`), and on a target that is the CPU: there is no cable, and copying is faster than comparing. Rejects
   * with `EGPU_DEVICE_LOST`.
   */
  freezeChanges(progress: number, options?: AbortOptions): Promise<FrozenBuffers>
  /**
   * Brings a saved state back, and resolves once it is really there. Until then the pieces it reads must stay as they
   * are. Rejects with `EGPU_CHECKPOINT_CORRUPT` when the state has not exactly these parts and sizes. A restore that
   * rejects has changed nothing.
   */
  restore(state: SavedState, options?: AbortOptions): Promise<void>
  close(): void
}

/**
 * Declares what makes up a workload's state: named buffers (sizes in multiples of 4 bytes) and textures, with usages
 * `COPY_SRC` and `COPY_DST`; anything else is a `TypeError`, and so are textures that WebGPU cannot copy both ways
 * (multisampled, `depth24plus`, `depth32float`).
 */
export function checkpointBuffers(
  target: OpenTarget<GPUDevice>,
  resources: Readonly<Record<string, Saveable>>,
  options: RingOptions = {},
): BufferCheckpoint {
  const declared = Object.entries(resources).map(([name, resource]) => describeResource(name, resource))
  const guard = new DeviceGuard(target.handle, target.target.name, target.lost)
  const ringOptions = { ...options, chunkBytes: options.chunkBytes ?? chunkFor(declared), slots: options.slots ?? 8 }
  const reading = new Ring(guard, 'read', ringOptions)
  const writing = new Ring(guard, 'write', ringOptions)
  const shadows = new ShadowPool(guard.device, declared)
  const parts: readonly StatePart[] = declared.map(({ name, byteLength }) => ({ name, byteLength }))
  let finder: ChangeFinder | undefined
  const digests = new Map<string, GPUBuffer>()
  /** Whether the finder saw the freeze before the next one, and its caller got it. */
  let previous: Promise<boolean> = Promise.resolve(false)

  const copyAll = (shadow: Shadow, more: (encoder: GPUCommandEncoder) => void): void => {
    const encoder = guard.device.createCommandEncoder({ label: 'egpu freeze' })
    for (const resource of declared) resource.copyTo(encoder, shadow.get(resource.name) as GPUBuffer)
    more(encoder)
    guard.device.queue.submit([encoder.finish()])
  }

  const frozen = (shadow: Shadow, progress: number, changed: ReadonlyMap<string, readonly Span[]> | undefined) =>
    frozenBuffers({
      guard,
      ring: reading,
      shadow,
      parts,
      progress,
      changed,
      release: () => shadows.release(shadow),
    })

  const freeze = (progress: number): FrozenBuffers => {
    guard.check()
    const shadow = shadows.acquire()
    previous = Promise.resolve(false)
    copyAll(shadow, () => {})
    return frozen(shadow, progress, undefined)
  }

  const whole = async (progress: number, signal: AbortSignal | undefined): Promise<FrozenBuffers> => {
    signal?.throwIfAborted()
    return freeze(progress)
  }

  const close = (): void => {
    guard.close()
    reading.close()
    writing.close()
    shadows.close()
    for (const buffer of digests.values()) buffer.destroy()
  }

  return {
    freeze,

    freezeChanges(progress, { signal } = {}) {
      if (target.target.kind === 'cpu') return whole(progress, signal)
      const before = previous
      const freezing = (async () => {
        signal?.throwIfAborted()
        guard.check()
        const shadow = shadows.acquire()
        try {
          const found = new Map<string, Found>()
          copyAll(shadow, (encoder) => {
            const comparing = (finder ??= new ChangeFinder(guard))
            for (const [name, buffer] of shadow) {
              const { size: byteLength } = buffer
              const known = digests.get(name) ?? comparing.createDigests(byteLength)
              digests.set(name, known)
              found.set(name, comparing.note(encoder, known, { buffer, at: 0, offset: 0, byteLength }))
            }
          })
          const changed = await Promise.all(
            [...found].map(async ([name, ask]): Promise<[string, readonly Span[]]> => {
              return [name, (await ask(signal)).flatMap((span) => split(span, reading.chunkBytes))]
            }),
          )
          return frozen(shadow, progress, (await before) ? new Map(changed) : undefined)
        } catch (error) {
          shadows.release(shadow)
          throw error
        }
      })()
      previous = freezing.then(
        () => true,
        () => false,
      )
      return freezing
    },

    async restore(state, { signal } = {}) {
      signal?.throwIfAborted()
      guard.check()
      requireSameParts(state.parts, parts)
      previous = Promise.resolve(false)
      const shadow = shadows.acquire()
      try {
        for (const { name, byteLength } of declared) {
          const place = shadow.get(name) as GPUBuffer
          const written = await fill(guard, writing, place, state.read(name, { signal }), signal)
          if (written !== byteLength) throw corrupt(`part ${name} gave ${written} bytes instead of ${byteLength}`)
        }
        const encoder = guard.device.createCommandEncoder({ label: 'egpu restore' })
        for (const resource of declared) resource.copyFrom(encoder, shadow.get(resource.name) as GPUBuffer)
        guard.device.queue.submit([encoder.finish()])
        await guard.confirm(signal)
      } finally {
        shadows.release(shadow)
      }
    },

    close,
    [Symbol.dispose]: close,
  }
}

/** Larger ones drained no faster, and took more memory (NVIDIA H200 on PCIe 5.0, docs/performance.md). */
const mostChunkBytes = 8 * 2 ** 20

function chunkFor(declared: readonly Resource[]): number {
  const largest = Math.max(4, ...declared.map(({ byteLength }) => byteLength))
  return Math.min(mostChunkBytes, largest)
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
