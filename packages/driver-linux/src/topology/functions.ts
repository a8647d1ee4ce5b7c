import { hostInterfaceOf, usb4HostInterfaceClass } from '../data/host-interfaces.ts'
import { tunnelPortOf } from '../data/tunnel-ports.ts'
import type { PciFunction, Topology } from './types.ts'

/** VGA (0300), 3D (0302) and other display controllers (0380): what PCI calls a GPU. */
export function isGpu({ pciClass }: Pick<PciFunction, 'pciClass'>): boolean {
  const subclass = pciClass === undefined ? undefined : pciClass >> 8
  return subclass === 0x0300 || subclass === 0x0302 || subclass === 0x0380
}

export function isBridge({ pciClass }: PciFunction): boolean {
  return pciClass !== undefined && pciClass >> 8 === 0x0604
}

/** A Thunderbolt or USB4 host interface: where a domain hangs. */
export function isHostInterface(device: PciFunction): boolean {
  if (device.pciClass === usb4HostInterfaceClass) return true
  return device.pciClass === 0x088000 && hostInterfaceOf(device) !== undefined
}

export function isKnownTunnelPort(device: PciFunction): boolean {
  return device.parents.length === 0 && tunnelPortOf(device) !== undefined
}

/** Address without its function: `0000:04:00`. */
export function deviceAddressOf(address: string): string {
  return address.slice(0, address.lastIndexOf('.'))
}

/**
 * The GPUs of the machine, one per device: a card with two display functions is one GPU, the lowest function of it, and
 * the virtual functions it is shared by are none. Ordered by address.
 */
export function gpusOf(topology: Pick<Topology, 'pci'>): readonly PciFunction[] {
  const gpus = new Map<string, PciFunction>()
  for (const device of topology.pci.values()) {
    if (!isGpu(device) || topology.pci.has(device.details?.physicalFunction ?? '')) continue
    const key = deviceAddressOf(device.address)
    const other = gpus.get(key)
    if (other === undefined || device.address < other.address) gpus.set(key, device)
  }
  return [...gpus.values()].sort((a, b) => (a.address < b.address ? -1 : 1))
}

/** All functions of the device that `address` belongs to: the GPU, its audio, its USB and UCSI controllers. */
export function functionsOf(topology: Pick<Topology, 'pci'>, address: string): readonly PciFunction[] {
  const prefix = `${deviceAddressOf(address)}.`
  return [0, 1, 2, 3, 4, 5, 6, 7].flatMap((index) => topology.pci.get(`${prefix}${index}`) ?? [])
}

/** The bridges above a function, from the root port down. A VMD controller in between is no bridge and left out. */
export function bridgesAbove(topology: Pick<Topology, 'pci'>, device: PciFunction): PciFunction[] {
  return device.parents.flatMap((address) => topology.pci.get(address) ?? []).filter(isBridge)
}
