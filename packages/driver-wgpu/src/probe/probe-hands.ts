import { abandonable, EGpuError, RuntimeKind } from '@egpu/core'
import type { AbortOptions, OpenTarget } from '@egpu/core'
import { DeviceGuard } from '../checkpoint/device-guard.ts'
import { fill } from '../checkpoint/fill.ts'
import { drainSpans, Ring } from '../checkpoint/ring.ts'
import { warmUp } from '../device/warm-up.ts'
import { BufferUsage } from '../flags.ts'
import { createBurner } from './burner.ts'

/**
 * What a WebGPU device is measured with: link, memory and arithmetic. Nothing counts as done until the device has shown
 * that it lives, so a device that goes meanwhile is `EGPU_DEVICE_LOST` and not a very fast one. Every call is abandoned
 * when its signal fires. Disposing frees what it holds on the device, twice is fine.
 */
export interface WgpuProbeHands extends AsyncDisposable {
  /** Copies up to 8 MiB into the device's own memory; a `RangeError` for more. */
  write(bytes: Uint8Array, options?: AbortOptions): Promise<void>
  /** Reads back the first bytes of what was written last. They stay as they are until the next `read`. */
  read(byteLength: number, options?: AbortOptions): Promise<Uint8Array>
  /** Computes about so many floating-point operations, 2 million at least. */
  compute(flops: number, options?: AbortOptions): Promise<void>
  /** Copies within the device's memory until about so many bytes have moved, 16 MiB at least. */
  stream(byteLength: number, options?: AbortOptions): Promise<void>
}

const bufferBytes = 8 * 2 ** 20

/** Small enough for copies on the spot (about 10 GB/s, more than a cable carries): threads would take longer to start. */
const ringOptions = { chunkBytes: 512 * 2 ** 10, slots: 8 }

/**
 * Hands for `probe` of a `WorkloadMigrator`, which measures a target with them when its device comes:
 * `new WorkloadMigrator(manager, { probe: probeHands })`. Compiles and warms up before it resolves, and takes 24 MiB on the
 * device and 8 on the host. Bytes go the way those of checkpoints go. `undefined` for what is no WebGPU target. Rejects
 * with `EGPU_DEVICE_LOST` when the device went first.
 */
export async function probeHands(open: OpenTarget, options: AbortOptions = {}): Promise<WgpuProbeHands | undefined> {
  if (open.target.runtime !== RuntimeKind.WebGpu) return undefined
  options.signal?.throwIfAborted()
  const device = open.handle as GPUDevice
  const guard = new DeviceGuard(device, open.target.name, open.lost)
  const [reading, writing] = [new Ring(guard, 'read', ringOptions), new Ring(guard, 'write', ringOptions)]
  const make = (usage: number): GPUBuffer => device.createBuffer({ label: 'egpu probe', size: bufferBytes, usage })
  const data = make(BufferUsage.CopyDst | BufferUsage.CopySrc | BufferUsage.Storage)
  const copy = make(BufferUsage.CopyDst)
  const host = new Uint8Array(bufferBytes)
  const burner = createBurner(device, data)

  const run = async (record: (encoder: GPUCommandEncoder) => void, { signal }: AbortOptions): Promise<void> => {
    signal?.throwIfAborted()
    guard.check()
    const encoder = device.createCommandEncoder({ label: 'egpu probe' })
    record(encoder)
    device.queue.submit([encoder.finish()])
    await guard.confirm(signal)
  }
  const dispose = async (): Promise<void> => {
    guard.close()
    for (const ring of [reading, writing]) ring.close()
    for (const buffer of [data, copy]) buffer.destroy()
    burner.then(
      (one) => one.destroy(),
      () => {},
    )
  }

  const hands: WgpuProbeHands = {
    async write(bytes, { signal } = {}) {
      signal?.throwIfAborted()
      if (bytes.byteLength > bufferBytes) {
        throw new RangeError(`a probe writes ${bufferBytes} bytes at most, not ${bytes.byteLength}`)
      }
      await fill(guard, writing, data, pieces(bytes), signal)
      await guard.confirm(signal)
    },
    async read(byteLength, { signal } = {}) {
      signal?.throwIfAborted()
      const size = Math.min(bufferBytes, Math.ceil(byteLength / 4) * 4)
      const place = host.subarray(0, size)
      await drainSpans(guard, reading, data, [{ offset: 0, byteLength: size }], place, signal)
      return place.subarray(0, byteLength)
    },
    async compute(flops, abort = {}) {
      const burning = await burner
      await run((encoder) => burning.burn(encoder, flops), abort)
    },
    async stream(byteLength, abort = {}) {
      // Each copied byte is read once and written once.
      const copies = Math.max(1, Math.round(byteLength / 2 / bufferBytes))
      await run((encoder) => {
        for (let at = 0; at < copies; at += 1) encoder.copyBufferToBuffer(data, 0, copy, 0, bufferBytes)
      }, abort)
    },
    [Symbol.asyncDispose]: dispose,
  }
  try {
    await abandonable(warm(device, hands, burner), options.signal)
    return hands
  } catch (error) {
    await dispose()
    options.signal?.throwIfAborted()
    throw EGpuError.is(error) ? error : guard.loss(error)
  }
}

/** What a device does for the first time takes many times as long: each way is gone once at full size. */
async function warm(device: GPUDevice, hands: WgpuProbeHands, burner: Promise<unknown>): Promise<void> {
  await Promise.all([warmUp(device), burner])
  await hands.write(new Uint8Array(bufferBytes))
  await hands.read(bufferBytes)
  await hands.compute(1)
  await hands.stream(1)
}

/** Copies on the device are of multiples of 4 bytes. */
async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
  if (bytes.byteLength % 4 !== 0) yield new Uint8Array(4 - (bytes.byteLength % 4))
}
