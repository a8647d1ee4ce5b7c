import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import { BufferUsage, MapMode } from '../flags.ts'
import { isEnding } from './mapped-memory.ts'

/**
 * Tells results from fabrications. A lost WebGPU device says nothing: `submit`, `writeBuffer` and
 * `onSubmittedWorkDone` succeed, only `mapAsync` rejects. So nothing counts as done until something submitted after it
 * was mapped.
 */
export class DeviceGuard {
  readonly device: GPUDevice
  readonly #name: string
  #lostBecause: string | undefined
  #canary: GPUBuffer | undefined
  #isClosed = false

  constructor(device: GPUDevice, name: string, lost: Promise<{ readonly reason: string; readonly message: string }>) {
    this.device = device
    this.#name = name
    void lost.then(({ reason, message }) => void (this.#lostBecause = `${reason}: ${firstLine(message)}`))
  }

  /** Throws `EGPU_DEVICE_LOST` once the loss is known, and `EGPU_CLOSED` after `close()`. */
  check(): void {
    if (this.#isClosed) throw this.#closed()
    if (this.#lostBecause !== undefined) throw this.loss()
    if (isEnding(this.device)) throw this.loss(new Error('it was destroyed'))
  }

  /** `mapAsync`, with the loss as what it is. */
  async map(buffer: GPUBuffer, mode: GPUMapModeFlags, signal: AbortSignal | undefined): Promise<void> {
    try {
      await abandonable(buffer.mapAsync(mode), signal)
    } catch (cause) {
      signal?.throwIfAborted()
      if (this.#isClosed) throw this.#closed(cause)
      throw this.loss(cause)
    }
    this.check()
  }

  /** Resolves once everything that was submitted so far was really done. */
  async confirm(signal: AbortSignal | undefined): Promise<void> {
    const canary = (this.#canary ??= this.device.createBuffer({
      label: 'egpu canary',
      size: 4,
      usage: BufferUsage.MapRead | BufferUsage.CopyDst,
    }))
    // Of a device that hangs it never comes back.
    await abandonable(this.device.queue.onSubmittedWorkDone(), signal)
    await this.map(canary, MapMode.Read, signal)
    canary.unmap()
  }

  close(): void {
    this.#isClosed = true
    this.#canary?.destroy()
  }

  #closed(cause?: unknown): EGpuError {
    return new EGpuError(EGpuErrorCode.Closed, 'the checkpoint was closed', { driver: 'wgpu', cause })
  }

  /** The loss, as far as it is known by now, as an error. */
  loss(cause?: unknown): EGpuError {
    const why = this.#lostBecause ?? (cause instanceof Error ? firstLine(cause.message) : '')
    return new EGpuError(EGpuErrorCode.DeviceLost, `${this.#name} was lost${why === '' ? '' : ` (${why})`}`, {
      driver: 'wgpu',
      cause,
    })
  }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}
