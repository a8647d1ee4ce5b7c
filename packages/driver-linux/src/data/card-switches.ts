import { pciIdLookup } from './pci-id-table.ts'
import type { PciIdRow } from './pci-id-table.ts'

/**
 * Switches that sit on a graphics card between its connector and its GPU. They are part of the card: the link that
 * counts is the one above them, and they prove nothing about a box (a laptop's own Navi has them too).
 */
export const cardSwitches: readonly PciIdRow[] = [
  {
    vendorId: 0x1002,
    deviceIds: [0x1478, 0x1479],
    name: 'AMD Vega 20 and Navi',
    source: 'pci.ids: Navi 10 XL Upstream and Downstream Port of PCI Express Switch',
  },
  {
    vendorId: 0x1002,
    deviceIds: [0x14a0, 0x14a1],
    name: 'AMD Vega',
    source: 'pci.ids',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0x4fa0, 0x4fa1, 0x4fa4],
    name: 'Intel Arc A',
    source: 'kernel logs on linux-pci and intel-gfx (4fa0 and 4fa1 upstream, 4fa4 downstream); not in pci.ids',
  },
  {
    vendorId: 0x8086,
    deviceIds: [0xe2f0, 0xe2f1, 0xe2ff],
    name: 'Intel Arc B',
    source:
      'kernel logs on linux-pci: "[8086:e2ff] PCIe Switch Upstream Port" (e2f0 and e2f1 downstream); not in pci.ids',
  },
]

export const cardSwitchOf: ReturnType<typeof pciIdLookup<PciIdRow>> = pciIdLookup(cardSwitches)
