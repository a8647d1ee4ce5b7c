import { pciIdLookup } from './pci-id-table.ts'
import type { PciIdRow } from './pci-id-table.ts'

/**
 * PCI Express switches inside Thunderbolt and USB4 chips. The same ids serve host controllers and boxes, so where in
 * the chain a bridge stands decides what it is.
 */
export const thunderboltBridges: readonly ThunderboltBridgeRow[] = [
  {
    vendorId: 0x8086,
    deviceIds: [0x1513, 0x151a, 0x151b, 0x1547, 0x1548, 0x1549, 0x1567, 0x1569],
    name: 'Light, Eagle, Cactus, Port and Redwood Ridge',
    generation: 1,
    source: 'pci.ids; drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x156b, 0x156d, 0x157e],
    name: 'Falcon Ridge and Win Ridge',
    generation: 2,
    source: 'pci.ids; drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x1576, 0x1578, 0x15c0, 0x15d3, 0x15da],
    name: 'Alpine Ridge',
    generation: 3,
    source: 'pci.ids; drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x15e7, 0x15ea, 0x15ef],
    name: 'Titan Ridge',
    generation: 3,
    source: 'pci.ids; drivers/thunderbolt/nhi.h',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x1136],
    name: 'Maple Ridge',
    generation: 4,
    source: 'pci.ids',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x0b26],
    name: 'Goshen Ridge',
    generation: 4,
    source: 'pci.ids; drivers/thunderbolt/quirks.c',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x5780, 0x5783, 0x5786, 0x57a4],
    name: 'Barlow Ridge',
    generation: 4,
    source: 'pci.ids: hosts JHL9580 (5780) and JHL9540 (5783), hubs JHL9480 (5786) and JHL9440 (57a4)',
  },
  {
    vendorId: 0x1b21,
    // Seen: 2421 and 2423 (ASM4242 hosts), 2461 and 2463 (boxes). The others are assumed: ASMedia numbers its plain
    // switches 11xx, 18xx and 28xx.
    deviceIds: Array.from({ length: 0x100 }, (_, index) => 0x2400 + index),
    name: 'ASMedia ASM24xx',
    generation: 4,
    source: 'lspci and kernel logs on linux-pci (2421, 2423); lspci of ADT-Link UT4G (2461) and ASM2464PD boxes (2463)',
  },
]

export interface ThunderboltBridgeRow extends PciIdRow {
  /** As Linux counts in `generation`: 4 is USB4. */
  readonly generation: 1 | 2 | 3 | 4
}

export const thunderboltBridgeOf: ReturnType<typeof pciIdLookup<ThunderboltBridgeRow>> = pciIdLookup(thunderboltBridges)
