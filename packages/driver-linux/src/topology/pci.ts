import { parseHex, parseId, parseName, parseUevent, pciAddressPattern, pciAddressesIn } from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import type { PciFunction } from './types.ts'

const devices = 'bus/pci/devices'

export function listPciAddresses(sysfs: Sysfs): readonly string[] {
  return sysfs.list(devices).filter((name) => pciAddressPattern.test(name))
}

/**
 * One function in two system calls' worth of work: the link says where it hangs, the `uevent` attribute holds ids,
 * class and driver in one read. `undefined` when it vanished meanwhile.
 */
export function readPciFunction(sysfs: Sysfs, address: string): PciFunction | undefined {
  const link = sysfs.link(`${devices}/${address}`)
  const path = pathOf(link) ?? `${devices}/${address}`
  const uevent = parseUevent(textOf(sysfs.read(path, 'uevent')))
  const [vendorId, deviceId] = pairOf(uevent.get('PCI_ID'))
  const [subsystemVendorId, subsystemDeviceId] = pairOf(uevent.get('PCI_SUBSYS_ID'))
  const described = vendorId !== undefined && uevent.has('PCI_CLASS')
  const ids = described
    ? { vendorId, deviceId, subsystemVendorId, subsystemDeviceId, pciClass: parseHex(uevent.get('PCI_CLASS')) }
    : readIds(sysfs, path)
  if (ids.vendorId === undefined && uevent.size === 0) return undefined
  const above = link === undefined ? [] : pciAddressesIn(link)
  return {
    address,
    path,
    parents: above.slice(0, above.lastIndexOf(address)),
    ...ids,
    driver: parseName(uevent.get('DRIVER')),
  }
}

/** `../../../devices/pci0000:00/…` as a path from the root; anything else is reached through the link itself. */
function pathOf(link: string | undefined): string | undefined {
  return link === undefined ? undefined : /^(?:\.\.\/)+(devices\/(?!.*\.\.).+)$/.exec(link)?.[1]
}

/** `10DE:2B85`. */
function pairOf(text: string | undefined): readonly [number | undefined, number | undefined] {
  const [first, second] = text?.split(':') ?? []
  return [parseId(first), parseId(second)]
}

function readIds(sysfs: Sysfs, path: string): Omit<PciFunction, 'address' | 'path' | 'parents'> {
  return {
    vendorId: parseId(textOf(sysfs.read(path, 'vendor'))),
    deviceId: parseId(textOf(sysfs.read(path, 'device'))),
    subsystemVendorId: parseId(textOf(sysfs.read(path, 'subsystem_vendor'))),
    subsystemDeviceId: parseId(textOf(sysfs.read(path, 'subsystem_device'))),
    pciClass: parseHex(textOf(sysfs.read(path, 'class'))),
  }
}
