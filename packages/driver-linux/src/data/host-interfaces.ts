import { pciIdLookup } from './pci-id-table.ts'
import type { PciIdRow } from './pci-id-table.ts'

/** PCI class of every USB4 host interface (USB4 specification, class code 0C-03-40h). */
export const usb4HostInterfaceClass = 0x0c0340

/** Host interfaces (NHI) of Thunderbolt controllers that predate the class, all of class 0x088000. */
export const hostInterfaces: readonly PciIdRow[] = [
  {
    vendorId: 0x8086,
    deviceIds: [0x1513, 0x151a, 0x151b, 0x1547, 0x1548, 0x1566, 0x1568, 0x156a, 0x156c, 0x157d],
    name: 'Thunderbolt 1 and 2',
    source: 'drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x1575, 0x1577, 0x15bf, 0x15d2, 0x15d9, 0x15dc, 0x15dd, 0x15de],
    name: 'Alpine Ridge',
    source: 'drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x15e8, 0x15eb],
    name: 'Titan Ridge',
    source: 'drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x1134, 0x1137],
    name: 'Maple Ridge',
    source: 'drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x5781, 0x5784],
    name: 'Barlow Ridge',
    source: 'drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x8a0d, 0x8a17],
    name: 'Ice Lake',
    source: 'drivers/thunderbolt/nhi.h',
  },
]

export const hostInterfaceOf: ReturnType<typeof pciIdLookup<PciIdRow>> = pciIdLookup(hostInterfaces)

/**
 * Intel client processors with the controller inside have two host interfaces, 00:0d.2 for the root ports 00:07.0 and
 * 00:07.1, 00:0d.3 for 00:07.2 and 00:07.3. Known for these; newer ones say it in ACPI.
 */
export const pairedHostInterfaces: readonly PciIdRow[] = [
  {
    vendorId: 0x8086,
    deviceIds: [0x8a17, 0x8a0d, 0x9a1b, 0x9a1d, 0x9a1f, 0x9a21],
    name: 'Ice Lake and Tiger Lake',
    source: 'drivers/thunderbolt/nhi.h; intel/tbtools verify-sysfs.sh',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x463e, 0x466d, 0xa73e, 0xa76d, 0x7eb2, 0x7ec2, 0x7ec3],
    name: 'Alder Lake to Arrow Lake',
    source: 'drivers/thunderbolt/nhi.h; intel/tbtools verify-sysfs.sh',
  },
]

export const pairedHostInterfaceOf: ReturnType<typeof pciIdLookup<PciIdRow>> = pciIdLookup(pairedHostInterfaces)
