import type { TargetLoss } from '@egpu/core'

/** What is known at the moment of a loss. */
export interface LossSigns {
  readonly reason: GPUDeviceLostReason
  readonly message: string
  /** Whether the PCI device is still on the bus; `undefined` when nobody could tell. */
  readonly onBus: boolean | undefined
}

/**
 * Words that say what happened. D3D12 gives DXGI codes (learn.microsoft.com, "DXGI_ERROR"), Metal its command buffer
 * errors; a browser says that its GPU process, in which Dawn's instance lives, is gone.
 */
const words: readonly (readonly [RegExp, TargetLoss['reason']])[] = [
  [/DXGI_ERROR_DEVICE_HUNG|CallbackErrorHang|CallbackErrorTimeout|GPU timeout|watchdog/i, 'hung'],
  [/DXGI_ERROR_DEVICE_REMOVED|DeviceRemoved/i, 'unplugged'],
  [/DXGI_ERROR_DEVICE_RESET|DXGI_ERROR_DRIVER_INTERNAL_ERROR/i, 'reset'],
  [/instance reference no longer exists|GPU process|connection lost|context lost/i, 'process-crash'],
]

/** Why a device was lost, as far as the signs tell; Vulkan's own message alone says nothing. */
export function classifyLoss(signs: LossSigns): TargetLoss['reason'] {
  if (signs.reason === 'destroyed') return 'destroyed'
  if (signs.onBus === false) return 'unplugged'
  const spoken = words.find(([pattern]) => pattern.test(signs.message))
  if (spoken !== undefined) return spoken[1]
  return signs.onBus === true && signs.message.includes('VK_ERROR_DEVICE_LOST') ? 'reset' : 'unknown'
}
