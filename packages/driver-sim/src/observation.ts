import { vendorOfPciId } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import type { CardPlace } from './context.ts'
import type { SimGpuDescription } from './descriptions.ts'

/** What there is to see of one card at one moment. */
export interface CardView extends Pick<DeviceObservation, 'key' | 'stage' | 'powerState'> {
  readonly description: SimGpuDescription
  readonly place: CardPlace
  readonly serial: string
  readonly pciAddress: string
  readonly memoryBytes: number
}

export function observationOf({ key, stage, powerState, description, place, ...view }: CardView): DeviceObservation {
  const { vendorId, deviceId, subsystemVendorId, subsystemDeviceId, name, uuid, displayIds } = description
  const ids = { vendorId, deviceId, subsystemVendorId, subsystemDeviceId }
  return deepFreeze({
    key,
    identity: {
      ...ids,
      uuid,
      serial: view.serial,
      pciAddress: view.pciAddress,
      enclosureUid: place.enclosureId,
      enclosureSlot: place.slot,
      adapterName: name,
    },
    // A VGA controller.
    gpu: { ...ids, name, vendor: vendorOfPciId(vendorId), pciClass: 0x030000, memoryBytes: view.memoryBytes },
    stage,
    verdict: place.verdict(),
    enclosureId: place.enclosureId,
    ...place.surroundings(),
    link: place.link(view.pciAddress),
    powerState,
    hasDisplays: displayIds === undefined ? undefined : displayIds.length > 0,
    displayIds: displayIds && [...displayIds],
    kernelDriver: stage === 'ready' ? (description.kernelDriver ?? 'sim') : undefined,
  })
}

/** Ids and serial number, as a driver for real hardware would name it. */
export function keyOf({ vendorId, deviceId }: SimGpuDescription, serial: string): string {
  const hex = (id: number | undefined): string => (id === undefined ? 'sim' : id.toString(16).padStart(4, '0'))
  return `${hex(vendorId)}:${hex(deviceId)}-${serial}`
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const child of Object.values(value)) deepFreeze(child)
  }
  return value
}
