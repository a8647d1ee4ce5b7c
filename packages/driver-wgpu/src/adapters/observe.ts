import { RuntimeKind } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import { vendorOf } from './vendor.ts'
import type { AdapterSeen } from './adapter-seen.ts'

/** A GPU as core wants to hear of it; `undefined` for software, which is no GPU. */
export function observeAdapter(seen: AdapterSeen): DeviceObservation | undefined {
  if (seen.software) return undefined
  const { vendor, vendorId } = vendorOf(seen.vendor)
  return {
    key: seen.key,
    identity: { adapterName: seen.name, vendorId },
    gpu: { name: seen.name, vendor, vendorId },
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
    // WebGPU does not say how a GPU is attached; whoever relies on it must reckon with the cable.
    removable: !seen.software,
  }
}

/** Target ids must be unique among all drivers. */
export function targetId(key: string): string {
  return `wgpu:${key}`
}
