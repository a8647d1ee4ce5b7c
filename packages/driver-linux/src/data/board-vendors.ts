/**
 * Makers of graphics cards that make no laptops: a GPU with one of these as subsystem vendor is a card in a slot.
 * ASUS, GIGABYTE, MSI, Lenovo, Acer, HP and EVGA (SC15, SC17) are left out on purpose, their laptops carry the same id.
 * Source: pci.ids and the PCI-SIG member list.
 */
export const addInBoardVendors: ReadonlyMap<number, string> = new Map([
  [0x10b0, 'Gainward'],
  [0x148c, 'PowerColor'],
  [0x1569, 'Palit'],
  [0x1682, 'XFX'],
  [0x174b, 'Sapphire'],
  [0x1849, 'ASRock'],
  [0x196e, 'PNY'],
  [0x19da, 'ZOTAC'],
  [0x1b4c, 'GALAX'],
  [0x1da2, 'Sapphire'],
  [0x1eae, 'XFX'],
])
