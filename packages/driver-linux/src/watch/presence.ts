import { join } from 'node:path'
import { listQuietly, readQuietly } from '../quiet-files.ts'
import { pciAddressesIn } from '../sysfs/parse.ts'
import type { View } from './state.ts'

/**
 * Which of these devices have an empty slot above them. `adapter` of a hot-plug slot asks the port, not the card, and
 * is only read when something below that port just went, so the port is awake already
 * (Documentation/PCI/hotplug, drivers/pci/hotplug/pci_hotplug_core.c).
 */
export function absentDevices(sysfsRoot: string, keys: readonly string[], view: View): readonly string[] {
  const slots = join(sysfsRoot, 'bus/pci/slots')
  const adapters = new Map<string, string>()
  for (const name of listQuietly(slots)) {
    const address = readQuietly(join(slots, name, 'address'))?.trim()
    if (address !== undefined) adapters.set(address, join(slots, name, 'adapter'))
  }
  const empty = new Map<string, boolean>()
  const isEmpty = (address: string): boolean => {
    const adapter = adapters.get(address)
    if (adapter === undefined) return false
    const known = empty.get(address) ?? readQuietly(adapter)?.trim() === '0'
    empty.set(address, known)
    return known
  }
  return keys.filter((key) => {
    const path = view.devpaths.get(key) ?? ''
    // A slot is named by the address of what is in it, without the function.
    return pciAddressesIn(path).some((address) => isEmpty(address.slice(0, address.lastIndexOf('.'))))
  })
}
