import type { BytesPerSecond } from '../checkpoint/pace.ts'
import { ringShape } from '../checkpoint/ring.ts'
import { heartbeatTimes } from '../device/heartbeat.ts'
import type { HeartbeatOptions } from '../device/heartbeat.ts'
import type { DescribeDevice } from '../device/open-target.ts'
import type { ProtectionEvent } from './events.ts'

export interface ProtectOptions {
  /** Where adapters come from. Default: `navigator.gpu` where there is one, else the optional peer `webgpu`. */
  readonly gpu?: GPU | undefined
  /** Flags for `create()` of the package `webgpu`. Unused with any other `gpu`. */
  readonly dawnFlags?: readonly string[] | undefined
  /**
   * Whether the SwiftShader of an installed browser serves as the last adapter, on the CPU, where Vulkan shows none of its
   * own: slow, but the work goes on. Default true; not when `VK_DRIVER_FILES` names the drivers. Unused with any other
   * `gpu`.
   */
  readonly cpuFallback?: boolean | undefined
  /**
   * What the device must have, as for `requestDevice`; a function is asked once, with the first adapter. Later adapters
   * that lack any of it are passed over. Default: WebGPU's default limits.
   */
  readonly descriptor?: GPUDeviceDescriptor | DescribeDevice | undefined
  readonly heartbeat?: HeartbeatOptions | undefined
  readonly checkpoint?: CheckpointOptions | undefined
  /** Waits before the second, third, … attempt to recover, in milliseconds; the last one repeats. Default 0, 2, 10, 30 s. */
  readonly backoffMs?: readonly number[] | undefined
  /** After so long without a device the loss is final and `lost` resolves. Default 10 minutes. */
  readonly giveUpAfterMs?: number | undefined
  /**
   * Whether a second device is kept open that takes over at once: on another GPU if there is one, else on the same adapter,
   * where it helps when that is reset. Shader modules and pipelines are made there too, in the background: each twice, and
   * it takes their memory on that GPU, and what an open device takes, but none for buffers and textures. After it took
   * over, the next is opened. It keeps that GPU awake, and does not keep Node alive. Default false.
   */
  readonly standBy?: boolean | undefined
  readonly onEvent?: ((event: ProtectionEvent) => void) | undefined
}

/** When a checkpoint cuts the log of what would have to be done again after a loss. */
export interface CheckpointOptions {
  /** Host memory the log may take. Default 64 MiB. */
  readonly maxLogBytes?: number | undefined
  /** Work that may have to be done again, as time since the last checkpoint. Default 1000 ms; `Infinity` for never. */
  readonly intervalMs?: number | undefined
  /** Staging memory for draining a checkpoint. */
  readonly chunkBytes?: number | undefined
  readonly slots?: number | undefined
  /**
   * How fast checkpoints may cross the cable; a function is asked before each piece, so that whoever hears of link errors
   * can slow them down; 0 holds them, and the log grows meanwhile. Work that changes more than that holds the application
   * up once the log is twice `maxLogBytes`, or no checkpoint came for four times `intervalMs`. Default: as fast as it
   * goes.
   */
  readonly bytesPerSecond?: BytesPerSecond | undefined
}

/** Throws a `TypeError` for what could never work, before there is a device that would have to be closed again. */
export function checkOptions({ heartbeat, checkpoint, backoffMs = [], giveUpAfterMs }: ProtectOptions): void {
  heartbeatTimes(heartbeat ?? {})
  ringShape(checkpoint ?? {})
  const { maxLogBytes, intervalMs } = checkpoint ?? {}
  const waits = backoffMs.map((ms, index) => [`backoffMs[${index}]`, ms] as const)
  for (const [name, value] of [...waits, ...Object.entries({ giveUpAfterMs, maxLogBytes, intervalMs })]) {
    if (value !== undefined && !(value >= 0)) throw new TypeError(`${name} must be a number from 0 up, not ${value}`)
  }
}
