import type { DeviceIdentity, GpuDescription } from '../../types/device.ts'
import type { DeviceObservation } from '../../driver/observation.ts'
import { GpuVendor, vendorOfPciId } from '../../types/vendor.ts'

/** `10de:2684`, or with subsystem `10de:2684:1458:40bf`; `undefined` where a part of it is unknown. */
export interface PciIds {
  readonly model: string | undefined
  readonly board: string | undefined
}

export function pciIdsOf({ identity, gpu }: Pick<DeviceObservation, 'identity' | 'gpu'>): PciIds {
  const vendor = identity.vendorId ?? gpu.vendorId
  const device = identity.deviceId ?? gpu.deviceId
  if (vendor === undefined || device === undefined) return { model: undefined, board: undefined }
  const model = `${hex(vendor)}:${hex(device)}`
  const subsystemVendor = identity.subsystemVendorId ?? gpu.subsystemVendorId
  const subsystemDevice = identity.subsystemDeviceId ?? gpu.subsystemDeviceId
  if (subsystemVendor === undefined || subsystemDevice === undefined) return { model, board: undefined }
  return { model, board: `${model}:${hex(subsystemVendor)}:${hex(subsystemDevice)}` }
}

const hex = (id: number): string => id.toString(16).padStart(4, '0')

/** NVML writes `GPU-1b2c…`, Vulkan sixteen bare bytes: the same number either way. */
export function normalUuid(uuid: string): string {
  return uuid
    .replace(/^(?:GPU|MIG)-/i, '')
    .replaceAll('-', '')
    .toLowerCase()
}

/** Names that differ in case, spaces, trademark signs or a leading vendor name are the same name. */
export function normalName(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/\((?:r|tm|c)\)|[®™©]/g, '')
    .replace(/^(?:nvidia|amd|intel|apple)\s+(?:corporation\s+)?/, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Who made it; `Other` says nothing that could tell two makers apart, so it counts as unknown. */
export function makerOf({ identity, gpu }: Pick<DeviceObservation, 'identity' | 'gpu'>): GpuVendor | undefined {
  const vendor = gpu.vendor ?? vendorOfPciId(identity.vendorId ?? gpu.vendorId)
  return vendor === GpuVendor.Other ? undefined : vendor
}

/** Everything an observation can be recognised by, worked out once. */
export interface Traits {
  readonly uuid: string | undefined
  /** Serials are only unique within a model. */
  readonly serial: string | undefined
  readonly pciAddress: string | undefined
  readonly registryEntryId: string | undefined
  readonly ids: PciIds
  readonly enclosureUid: string | undefined
  readonly enclosureSlot: number | undefined
  readonly name: string | undefined
  readonly maker: GpuVendor | undefined
}

export function traitsOf(seen: { readonly identity: DeviceIdentity; readonly gpu: GpuDescription }): Traits {
  const { identity, gpu } = seen
  const ids = pciIdsOf(seen)
  const name = identity.adapterName ?? gpu.name
  return {
    uuid: identity.uuid === undefined ? undefined : normalUuid(identity.uuid),
    serial: identity.serial === undefined || ids.model === undefined ? undefined : `${ids.model}/${identity.serial}`,
    pciAddress: identity.pciAddress?.toLowerCase(),
    registryEntryId: identity.registryEntryId,
    ids,
    enclosureUid: identity.enclosureUid,
    enclosureSlot: identity.enclosureSlot,
    name: name === undefined ? undefined : normalName(name),
    maker: makerOf(seen),
  }
}

/**
 * Whether the two cannot be one device. Serials are left out: one driver reads the PCI serial, another the vendor's,
 * and both are right. Addresses and the box a card sits in are facts about a moment, so they do not count between
 * then and now.
 */
export function conflict(a: Traits, b: Traits, when: 'same-moment' | 'another-moment'): boolean {
  if (differ(a.uuid, b.uuid) || differ(a.maker, b.maker)) return true
  if (differ(a.ids.model, b.ids.model) || differ(a.ids.board, b.ids.board)) return true
  if (when === 'another-moment') return false
  if (differ(a.pciAddress, b.pciAddress) || differ(a.registryEntryId, b.registryEntryId)) return true
  return differ(a.enclosureUid, b.enclosureUid) || differ(a.enclosureSlot, b.enclosureSlot)
}

/** Whether one driver's key now names another card, or the same one after a re-plug that nobody reported. */
export function swapped(before: Traits, after: Traits): boolean {
  return conflict(before, after, 'same-moment') || differ(before.serial, after.serial)
}

function differ<T>(a: T | undefined, b: T | undefined): boolean {
  return a !== undefined && b !== undefined && a !== b
}
