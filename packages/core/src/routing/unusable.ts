import { GpuDeviceState } from '../registry/states.ts'
import { EGpuPowerState } from '../types/device.ts'
import type { RoutableDevice } from './types.ts'

/** Kernel drivers that hold a PCI device for a virtual machine, or for nobody (Documentation/driver-api/vfio.rst). */
const placeholders: ReadonlySet<string> = new Set(['vfio-pci', 'pci-stub', 'pciback'])

const unbound = 'no kernel driver is bound to it, or none could be seen'

/** Why a device in this state takes no work; states that take some are absent. */
const reasons: Partial<Record<GpuDeviceState, string>> = {
  [GpuDeviceState.Lost]: 'it is lost: everything that was open on it is void',
  [GpuDeviceState.Wedged]: 'it is wedged: still listed, but it does not answer',
  [GpuDeviceState.Removed]: 'it is off the bus',
  [GpuDeviceState.Leaving]: 'it is about to go',
  [GpuDeviceState.Migrating]: 'work is being moved off it',
  [GpuDeviceState.Suspended]: 'it is asleep, and opening it would wake it',
}

/** Why no runtime may touch the device; `undefined` when one may. */
export function whyUnusable({ state, driver, powerState }: RoutableDevice): string | undefined {
  const reason = reasons[state]
  if (reason !== undefined) return reason
  if (driver !== undefined && placeholders.has(driver)) return `${driver} holds it, so no runtime here can open it`
  if (powerState === EGpuPowerState.Suspended) return reasons[GpuDeviceState.Suspended]
  if (powerState === EGpuPowerState.Disconnected) return 'it is disconnected'
  if (state !== GpuDeviceState.Discovered && state !== GpuDeviceState.Returned) return undefined
  return driver === undefined ? unbound : `${driver} is bound to it, but it is not ready yet`
}
