import { vendorOfPciId } from '@egpu/core'
import type { DeviceObservation, DriverSnapshot } from '@egpu/core/driver'
import { gpusOf } from './topology/functions.ts'
import type { Topology } from './topology/types.ts'

/** What a topology means: GPUs with their verdicts, boxes, and what a doctor would say. Pure. */
export function observe(topology: Topology): DriverSnapshot {
  const devices = gpusOf(topology).map((gpu): DeviceObservation => ({
    key: gpu.address,
    identity: { pciAddress: gpu.address, vendorId: gpu.vendorId, deviceId: gpu.deviceId },
    gpu: {
      vendor: vendorOfPciId(gpu.vendorId),
      vendorId: gpu.vendorId,
      deviceId: gpu.deviceId,
      pciClass: gpu.pciClass,
    },
    stage: gpu.driver === undefined ? 'present' : 'ready',
    kernelDriver: gpu.driver,
  }))
  return { devices, enclosures: [], findings: [] }
}
