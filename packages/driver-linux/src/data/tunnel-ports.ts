import { pciIdLookup } from './pci-id-table.ts'
import type { PciIdRow } from './pci-id-table.ts'

/**
 * PCI Express root ports that lead into a Thunderbolt or USB4 cable and nowhere else. `pci.ids` names each of them so.
 * Needed where ACPI does not say it: Ice Lake and Tiger Lake have no `usb4-host-interface` property, other
 * architectures no `removable`.
 */
export const tunnelPorts: readonly TunnelPortRow[] = [
  {
    vendorId: 0x8086,
    deviceIds: [0x8a1d, 0x8a1f, 0x8a21, 0x8a23],
    name: 'Ice Lake',
    protocol: 'thunderbolt',
    source: 'pci.ids; arch/x86/pci/acpi.c lists them for want of ACPI properties',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x9a23, 0x9a25, 0x9a27, 0x9a29, 0x9a2b, 0x9a2d, 0x9a2f, 0x9a31],
    name: 'Tiger Lake',
    protocol: 'usb4',
    source: 'pci.ids; arch/x86/pci/acpi.c lists them for want of ACPI properties',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x461f, 0x462f, 0x463f, 0x466e],
    name: 'Alder Lake-P',
    protocol: 'usb4',
    source: 'pci.ids',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0xa76e, 0xa71f, 0xa72f],
    name: 'Raptor Lake-P',
    protocol: 'usb4',
    source: 'pci.ids; drivers/pci/quirks.c (dpc_log_size)',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x7ec4, 0x7ec5, 0x7ec6, 0x7ec7],
    name: 'Meteor Lake and Arrow Lake',
    protocol: 'usb4',
    source: 'pci.ids',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0xa84e, 0xa84f, 0xa860],
    name: 'Lunar Lake',
    protocol: 'usb4',
    source: 'pci.ids',
  },
  {
    vendorId: 0x1022,
    deviceIds: [0x14cd],
    name: 'AMD Rembrandt',
    protocol: 'usb4',
    source: 'pci.ids: Family 19h USB4/Thunderbolt PCIe tunnel',
  },
  {
    vendorId: 0x1022,
    deviceIds: [0x14ef],
    name: 'AMD Phoenix and Hawk Point',
    protocol: 'usb4',
    source: 'pci.ids: Family 19h USB4/Thunderbolt PCIe tunnel; linux-pci 2024-08-22 (Limonciello)',
  },
  {
    vendorId: 0x1022,
    deviceIds: [0x150a],
    name: 'AMD Strix Point and Strix Halo',
    protocol: 'usb4',
    source: 'pci.ids: Strix/Strix Halo PCIe USB4 Bridge',
  },
]

export interface TunnelPortRow extends PciIdRow {
  /** What the port speaks to a device that could do either. */
  readonly protocol: 'thunderbolt' | 'usb4'
}

export const tunnelPortOf: ReturnType<typeof pciIdLookup<TunnelPortRow>> = pciIdLookup(tunnelPorts)
