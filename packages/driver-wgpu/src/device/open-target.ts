import { abandonable, EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, ComputeTarget, OpenTarget, TargetLoss } from '@egpu/core'
import type { AdapterSeen } from '../adapters/adapter-seen.ts'
import { copyLimits } from '../adapters/adapter-seen.ts'
import { classifyLoss } from './classify-loss.ts'
import { deferred } from './deferred.ts'
import { Heartbeat } from './heartbeat.ts'
import type { HeartbeatOptions } from './heartbeat.ts'
import { holdDevice, retireDevice, retireLostDevices } from './held-devices.ts'
import type { HeldDevice } from './held-devices.ts'

/** What a device is asked for, given what its adapter has. */
export type DescribeDevice = (adapter: GPUAdapter) => GPUDeviceDescriptor

/** Everything the adapter has, so that the device keeps what its target promises. */
export const everything: DescribeDevice = (adapter) => ({
  requiredLimits: copyLimits(adapter.limits),
  requiredFeatures: [...adapter.features] as GPUFeatureName[],
})

export interface OpenTargetOptions extends AbortOptions {
  readonly epoch: number
  readonly heartbeat: HeartbeatOptions
  readonly describeDevice: DescribeDevice
}

/** Opens a device on the adapter and watches over it. Rejects with `EGPU_DEVICE_NOT_FOUND` when the adapter is gone. */
export async function openTarget(
  seen: AdapterSeen,
  target: ComputeTarget,
  options: OpenTargetOptions,
): Promise<OpenTarget<GPUDevice>> {
  const opening = requestDevice(seen, options.describeDevice)
  try {
    return watchOver(await abandonable(opening, options.signal), target, options)
  } catch (error) {
    // Given up, but on its way: whatever still arrives must not stay open.
    void opening.then(retireDevice, () => {})
    throw error
  }
}

async function requestDevice(seen: AdapterSeen, describeDevice: DescribeDevice): Promise<HeldDevice> {
  await retireLostDevices()
  const fresh = await seen.request?.()
  if (fresh === undefined) throw gone(seen)
  try {
    return holdDevice(await fresh.adapter.requestDevice(describeDevice(fresh.adapter)), fresh)
  } catch (cause) {
    // The adapter was there a moment ago; a TypeError is about the descriptor.
    throw cause instanceof TypeError ? cause : gone(seen, cause)
  }
}

function gone(seen: AdapterSeen, cause?: unknown): EGpuError {
  const detail = cause instanceof Error ? `: ${cause.message}` : ''
  return new EGpuError(EGpuErrorCode.DeviceNotFound, `${seen.name} cannot be opened, it is gone or busy${detail}`, {
    driver: 'wgpu',
    cause,
  })
}

function watchOver(entry: HeldDevice, target: ComputeTarget, options: OpenTargetOptions): OpenTarget<GPUDevice> {
  const { device } = entry
  const lost = deferred<TargetLoss>()
  const heartbeat = new Heartbeat(device.queue, options.heartbeat, (waitedMs) => {
    entry.isHung = true
    end('hung', `${target.name} has not finished its work for ${Math.round(waitedMs)} ms`)
  })
  const end = (reason: TargetLoss['reason'], message: string): void => {
    heartbeat.stop()
    lost.resolve({ reason, message, atMs: performance.now() })
  }
  void device.lost.then(({ reason, message }) => end(classifyLoss({ reason, message, onBus: undefined }), message))
  const close = async (): Promise<void> => {
    end('destroyed', 'the target was closed')
    await retireDevice(entry)
  }
  return { target, epoch: options.epoch, handle: device, lost: lost.promise, close, [Symbol.asyncDispose]: close }
}
