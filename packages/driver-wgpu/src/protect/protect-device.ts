import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { chooseSource } from '../adapters/choose-source.ts'
import { acceptProtectedDevices } from './canvas.ts'
import { Core } from './core.ts'
import type { ProtectionStats } from './core.ts'
import { DeviceHandle, DeviceNode } from './handles/device-handle.ts'
import { Handle, wrap } from './handles/handle.ts'
import { checkOptions } from './options.ts'
import type { ProtectOptions } from './options.ts'
import { Recovery } from './recovery.ts'
import { SuccessorFinder } from './successor.ts'
import { forwardErrors } from './uncaptured-errors.ts'

/** What its owner can do with a protected device, and see of it. */
export interface Protection {
  /** Counts the devices it has run on, from 1. */
  readonly epoch: number
  /** The adapter it runs on now. */
  readonly adapter: string
  readonly stats: Readonly<ProtectionStats>
  /** Host memory that the log takes. */
  readonly logBytes: number
  /** Objects that would be made again after a loss. */
  readonly objectCount: number
  /** Saves now what changed since the last checkpoint. False when the device was lost first; nothing is lost by that. */
  checkpoint(): Promise<boolean>
  /** While it waits for an adapter: look again now. For whoever hears that a GPU was plugged in. */
  retry(): void
  /**
   * Goes to the best adapter there is now, as after a loss, but with everything saved first: back to a GPU that has
   * returned, for example. Resolves when work goes on, on `adapter`. Rejects with what ended the device, if that came
   * first.
   */
  move(): Promise<void>
}

const protections = new WeakMap<GPUDevice, Protection>()

/**
 * Opens a device that survives the loss of its GPU. It is a `GPUDevice` to anybody who uses it; when the GPU goes, the
 * objects are made again on the next adapter, their contents are brought back and the work since the last checkpoint
 * is done again, while the application's objects stay valid and what it waits for comes, late but right. Its `lost`
 * resolves only after `destroy()`, or when there is no hope.
 *
 * Rejects with `EGPU_NO_TARGET`, and why each adapter was passed over, when there is none to begin with; with a
 * `TypeError` for an interval, a wait or a size that is none.
 */
export async function protectDevice(options: ProtectOptions = {}): Promise<GPUDevice> {
  checkOptions(options)
  const source = chooseSource(options)
  const finder = new SuccessorFinder(source, options.descriptor)
  const refusals: string[] = []
  const first = await finder.find((_, error) => refusals.push(error.message))
  if (first === undefined) {
    const reasons = refusals.length > 0 ? refusals : [(await source.refusal({})) ?? 'the adapter went away']
    throw new EGpuError(EGpuErrorCode.NoTarget, `no adapter to begin with: ${reasons.join('; ')}`, { driver: 'wgpu' })
  }
  const recovery = new Recovery(finder, options)
  const core = new Core(recovery.incarnate(first), options)
  const node = new DeviceNode(core)
  const device = wrap(DeviceHandle, node) as unknown as GPUDevice
  forwardErrors(node, device)
  acceptProtectedDevices()
  recovery.begin(core)
  protections.set(device, {
    get epoch() {
      return core.epoch
    },
    get adapter() {
      return core.incarnation.adapterName
    },
    get logBytes() {
      return core.log.bytes
    },
    get objectCount() {
      return core.registry.size
    },
    stats: core.stats,
    checkpoint: () => core.checkpointer.run(),
    retry: () => recovery.retry(),
    move: () => recovery.move(),
  })
  return device
}

/** The owner's side of a device from `protectDevice`. A `TypeError` for any other device. */
export function protectionOf(device: GPUDevice): Protection {
  const protection = protections.get(device)
  if (protection === undefined) throw new TypeError('not a device from protectDevice()')
  return protection
}

/** Whether a value is a device from `protectDevice`. */
export function isProtected(device: object): boolean {
  return Handle.nodeOf(device) instanceof DeviceNode
}
