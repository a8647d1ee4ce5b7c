import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os'

/** An interface that is up and has an IPv6 link-local address: what can be spoken over a cable without any set-up. */
export interface LocalAddress {
  readonly interfaceName: string
  /** With its zone, ready to bind to: `fe80::1%thunderbolt0`. */
  readonly address: string
  /** What stands behind the `%` of any address on this interface. */
  readonly zone: string
  /** Differs whenever the interface was made anew, as after a re-plug, also under the same name. */
  readonly key: string
}

/**
 * Interfaces that can carry link-local traffic now. One without carrier is missing here: the operating system lists only
 * those that are up and running.
 */
export function localAddresses(
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): readonly LocalAddress[] {
  return Object.entries(interfaces).flatMap(([interfaceName, entries = []]) => {
    const entry = entries.find(
      ({ family, address, internal }) => family === 'IPv6' && !internal && /^fe[89ab]/i.test(address),
    )
    if (entry === undefined || entry.family !== 'IPv6') return []
    // Windows knows zones by number alone; elsewhere the name is what Node prints and takes.
    const zone = process.platform === 'win32' ? String(entry.scopeid) : interfaceName
    const address = `${entry.address}%${zone}`
    return [{ interfaceName, address, zone, key: `${interfaceName} ${entry.scopeid} ${entry.address}` }]
  })
}
