import { RuntimeKind, vendorOfPciId } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import { vendorOf } from './vendor.ts'
import type { AdapterSeen } from './adapter-seen.ts'
import { identityOf } from './vulkan-devices.ts'
import type { VulkanDevice } from './vulkan-devices.ts'

/**
 * The GPUs among the adapters, as core wants to hear of them; software is no GPU. Vulkan's devices give them ids where
 * names leave no doubt. Of equal ones, both lists have the same order, because Dawn goes through Vulkan's.
 */
export function observeAdapters(
  adapters: readonly AdapterSeen[],
  known: readonly VulkanDevice[],
): readonly DeviceObservation[] {
  const taken = new Map<string, number>()
  return adapters
    .filter(({ software }) => !software)
    .map((seen) => {
      const before = taken.get(seen.name) ?? 0
      taken.set(seen.name, before + 1)
      const same = known.filter(({ name }) => name === seen.name)
      const all = adapters.filter(({ name, backend }) => name === seen.name && backend === 'vulkan').length
      return observe(seen, same.length === all ? same[before] : undefined)
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

/** What could be opened on the adapter; `undefined` for a twin that WebGPU cannot address. */
export function targetOf(seen: AdapterSeen): ComputeTarget | undefined {
  if (seen.request === undefined) return undefined
  return {
    id: targetId(seen.key),
    name: seen.name,
    kind: seen.software ? 'cpu' : 'gpu',
    runtime: RuntimeKind.WebGpu,
    deviceId: seen.software ? undefined : seen.key,
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
