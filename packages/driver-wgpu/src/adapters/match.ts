import type { DeviceIdentity, EGpuDevice } from '@egpu/core'
import type { AdapterSeen } from './adapter-seen.ts'
import { targetId } from './observe.ts'
import { vendorOf } from './vendor.ts'
import { sameUuid } from './vulkan-devices.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

/** Which GPU of the machine a target is, and how sure that is. */
export interface TargetMatch {
  readonly targetId: string
  /**
   * `certain`: a UUID or a PCI address says so. `likely`: there is no other that it could be. `ambiguous`: there are
   * several; of identical GPUs, only a process that `pin` was asked about knows which one it has. `none`: no GPU fits, or
   * it is no GPU.
   */
  readonly certainty: 'certain' | 'likely' | 'ambiguous' | 'none'
  /**
   * 1 when certain. 0.9 for the only one of its model and 0.5 for the only one of its maker: another one that no driver
   * lists would look the same. One in so many when ambiguous, 0 for none.
   */
  readonly confidence: number
  /** `undefined` when it is ambiguous or none. */
  readonly device: EGpuDevice | undefined
  /** Everything it could be. */
  readonly candidates: readonly EGpuDevice[]
  /** What that rests on, as a sentence. */
  readonly reason: string
}

/** What one kind of evidence points at. */
interface Hint {
  readonly devices: readonly EGpuDevice[]
  /** When it points at one. */
  readonly confidence: number
  readonly basis: string
}

/** `possible` are the devices of Vulkan that the adapter could be. The strongest evidence that points anywhere decides. */
export function matchAdapter(
  seen: AdapterSeen,
  possible: readonly VulkanDevice[],
  devices: readonly EGpuDevice[],
): TargetMatch {
  const none = { targetId: targetId(seen.key), certainty: 'none', confidence: 0, device: undefined } as const
  if (seen.software) return { ...none, candidates: [], reason: 'it runs on the CPU' }
  const { vendorId } = vendorOf(seen.vendor)
  const hints: readonly Hint[] = [
    {
      devices: devices.filter((device) => possible.some((one) => isSame(device, one))),
      confidence: 1,
      basis: 'UUID or PCI address',
    },
    { devices: devices.filter((device) => isModel(device, seen, possible)), confidence: 0.9, basis: 'model' },
    {
      devices: devices.filter((device) => vendorId !== undefined && modelOf(device).vendorId === vendorId),
      confidence: 0.5,
      basis: 'maker',
    },
  ]
  const hint = hints.find(({ devices: fitting }) => fitting.length > 0)
  if (hint === undefined) return { ...none, candidates: [], reason: 'no GPU of that UUID, PCI address, model or maker' }
  const { devices: candidates, basis } = hint
  // One that is not among the devices counts too, when Vulkan shows it.
  const rivals = Math.max(candidates.length, possible.length)
  if (rivals > 1) {
    const reason = `${rivals} GPUs fit by ${basis}`
    return { ...none, certainty: 'ambiguous', confidence: 1 / rivals, candidates, reason }
  }
  return {
    ...none,
    certainty: hint.confidence === 1 ? 'certain' : 'likely',
    confidence: hint.confidence,
    device: candidates[0],
    candidates,
    reason: `the only one that fits by ${basis}`,
  }
}

function modelOf({ gpu, identity }: EGpuDevice): Pick<DeviceIdentity, 'vendorId' | 'deviceId'> {
  return { vendorId: gpu.vendorId ?? identity.vendorId, deviceId: gpu.deviceId ?? identity.deviceId }
}

function isModel(device: EGpuDevice, { name }: AdapterSeen, possible: readonly VulkanDevice[]): boolean {
  const { vendorId, deviceId } = modelOf(device)
  if (possible.some((one) => one.vendorId === vendorId && one.deviceId === deviceId)) return true
  return device.gpu.name === name || device.identity.adapterName === name
}

function isSame({ identity }: EGpuDevice, { uuid, pciAddress }: VulkanDevice): boolean {
  if (identity.uuid !== undefined && sameUuid(identity.uuid, uuid)) return true
  return pciAddress !== undefined && identity.pciAddress === pciAddress
}
