import { GpuDeviceState } from '../registry/states.ts'
import { EGpuPowerState } from '../types/device.ts'
import type { TrackedDevice } from './fusion/tracked-device.ts'

/**
 * The state of a device that is there and alive. Where several are true, the one that matters most to whoever wants to
 * use it: work is being moved off it; it must not be woken; something is wrong with it; work runs on it.
 */
export function settledState(device: TrackedDevice): GpuDeviceState {
  const { facts, health, migrations, ejecting, openTargets } = device
  if (facts?.stage !== 'ready') return GpuDeviceState.Discovered
  if (migrations > 0 || ejecting) return GpuDeviceState.Migrating
  if (facts.powerState === EGpuPowerState.Suspended) return GpuDeviceState.Suspended
  const level = health?.told.level
  if (facts.link?.downgrade !== undefined || level === 'degraded' || level === 'critical')
    return GpuDeviceState.Degraded
  return openTargets > 0 ? GpuDeviceState.Active : GpuDeviceState.Ready
}

/** Why it is in that state, for its history. */
export function settledReason(device: TrackedDevice, state: GpuDeviceState): string {
  const { facts, health, migrations, openTargets } = device
  switch (state) {
    case GpuDeviceState.Migrating:
      return migrations > 0 ? 'work is being moved off it' : 'a safe disconnect has begun'
    case GpuDeviceState.Suspended:
      return 'it is asleep'
    case GpuDeviceState.Degraded:
      return facts?.link?.downgrade === undefined
        ? `its health is ${health?.told.level}`
        : `its link runs at ${facts.link.downgrade.actual} instead of ${facts.link.downgrade.expected}`
    case GpuDeviceState.Active:
      return `${openTargets} open`
    case GpuDeviceState.Discovered:
      return 'no driver is bound to it'
    default:
      return 'nothing runs on it'
  }
}
