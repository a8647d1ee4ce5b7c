import type { HeartbeatOptions } from '../device/heartbeat.ts'
import type { DescribeDevice } from '../device/open-target.ts'
import type { ProtectionEvent } from './events.ts'

export interface ProtectOptions {
  /** Where adapters come from. Default: `navigator.gpu` where there is one, else the optional peer `webgpu`. */
  readonly gpu?: GPU | undefined
  /** Flags for `create()` of the package `webgpu`. Unused with any other `gpu`. */
  readonly dawnFlags?: readonly string[] | undefined
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
}
