import { RuntimeKind, vendorOfPciId } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import { vendorOf } from './vendor.ts'
import type { AdapterSeen } from './adapter-seen.ts'
import { identityOf, sameUuid } from './vulkan-devices.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

/** Set by a pin for the process that it is for: the UUID of the GPU that such a process was seen to open. */
export const pinnedVariable = 'EGPU_WGPU_PINNED'

/** What is known beyond what WebGPU says. */
export interface Known {
  /** What Vulkan shows to this process. */
  readonly devices: readonly VulkanDevice[]
  readonly pinnedUuid: string | undefined
}

/**
 * The devices of Vulkan that an adapter could be: one, or all of several equal ones. In what order Dawn goes through
 * those nobody can say, because layers that choose a GPU change it; only a pin has tried.
 */
export function possibleDevices(
  seen: AdapterSeen,
  adapters: readonly AdapterSeen[],
  { devices, pinnedUuid }: Known,
): readonly VulkanDevice[] {
  const same = devices.filter(({ name }) => name === seen.name)
  // The two looked at different moments, or Dawn is not on Vulkan.
  if (same.length !== adapters.filter((other) => isTwin(seen, other) && other.backend === 'vulkan').length) return []
  const pinned = same.filter(({ uuid }) => pinnedUuid !== undefined && sameUuid(uuid, pinnedUuid))
  return pinned.length > 0 ? pinned : same
}

/** Whether the GPU that this process was pinned to is among those that Vulkan shows it. */
export function isPinHeld({ devices, pinnedUuid }: Known): boolean {
  return pinnedUuid !== undefined && devices.some(({ uuid }) => sameUuid(uuid, pinnedUuid))
}

/** Whether nothing but their place in the list tells two adapters apart; each is its own twin. */
function isTwin(one: AdapterSeen, other: AdapterSeen): boolean {
  return one.name === other.name && one.backend === other.backend
}

/**
 * The GPUs among the adapters, as core wants to hear of them; software is no GPU. Vulkan's devices give them ids where
 * names leave no doubt. Each of several equal ones gets those of another; which of them opens, `targetOf` does not claim.
 */
export function observeAdapters(adapters: readonly AdapterSeen[], known: Known): readonly DeviceObservation[] {
  const given = new Set<VulkanDevice>()
  return adapters
    .filter(({ software }) => !software)
    .map((seen) => {
      const pinned = possibleDevices(seen, adapters, known)
      const all = possibleDevices(seen, adapters, { ...known, pinnedUuid: undefined })
      const device = [...(seen.request === undefined ? [] : pinned), ...all].find((one) => !given.has(one))
      if (device !== undefined) given.add(device)
      return observe(seen, device)
    })
}

function observe(seen: AdapterSeen, known: VulkanDevice | undefined): DeviceObservation {
  const { vendor, vendorId } = vendorOf(seen.vendor)
  const ids = known === undefined ? { adapterName: seen.name, vendorId } : identityOf(known)
  return {
    key: seen.key,
    identity: ids,
    gpu: {
      name: seen.name,
      vendor: vendor ?? vendorOfPciId(known?.vendorId),
      vendorId: ids.vendorId,
      deviceId: ids.deviceId,
      memoryBytes: known?.memoryBytes,
    },
    stage: seen.request === undefined ? 'present' : 'ready',
  }
}

/**
 * What could be opened on the adapter; `undefined` for a twin that WebGPU cannot address. Which of several equal GPUs a
 * target is stays open, unless this process was pinned to one.
 */
export function targetOf(
  seen: AdapterSeen,
  adapters: readonly AdapterSeen[],
  isPinned: boolean,
): ComputeTarget | undefined {
  if (seen.request === undefined) return undefined
  const isSure = isPinned || adapters.filter((other) => isTwin(seen, other)).length === 1
  return {
    id: targetId(seen.key),
    name: seen.name,
    kind: seen.software ? 'cpu' : 'gpu',
    runtime: RuntimeKind.WebGpu,
    deviceId: seen.software || !isSure ? undefined : seen.key,
    limits: seen.limits,
    features: seen.features,
    // WebGPU does not say how a GPU is attached; a driver that sees the bus does.
    removable: seen.software ? false : undefined,
  }
}

/** Target ids must be unique among all drivers. */
export function targetId(key: string): string {
  return `wgpu:${key}`
}
