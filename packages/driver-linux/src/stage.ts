import type { DeviceObservation } from '@egpu/core/driver'
import type { SurveyedGpu } from './survey.ts'
import { deviceAddressOf } from './topology/functions.ts'
import type { DrmCard, Topology } from './topology/types.ts'

/** The display card of a GPU, on whichever of its functions. */
export function cardOf(topology: Topology, { gpu }: Pick<SurveyedGpu, 'gpu'>): DrmCard | undefined {
  const device = deviceAddressOf(gpu.address)
  return topology.drmCards.find(({ pciAddress }) => pciAddress !== undefined && deviceAddressOf(pciAddress) === device)
}

/** Drivers that hold a device for somebody else: the host cannot open it as a GPU. */
export const passthroughDrivers: ReadonlySet<string> = new Set(['vfio-pci', 'pci-stub', 'xen-pciback'])

/** NVIDIA's own driver has a device node of its own and needs no DRM card. */
export const driversWithoutCard: ReadonlySet<string> = new Set(['nvidia'])

/**
 * `ready` means that it can be opened: a driver is bound and its node exists. DRM drivers make the card a moment after
 * they are bound.
 */
export function stageOf(topology: Topology, surveyed: SurveyedGpu): DeviceObservation['stage'] {
  if (surveyed.death !== undefined) return 'lost'
  const { driver } = surveyed.gpu
  if (driver === undefined || passthroughDrivers.has(driver)) return 'present'
  return driversWithoutCard.has(driver) || cardOf(topology, surveyed) !== undefined ? 'ready' : 'present'
}
