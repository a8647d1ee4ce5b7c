import { createHash } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import type { Socket } from 'node:net'
import type { CableLink } from '../links/cable-link.ts'
import type { LinkEnd } from './hello.ts'
import type { LinkRoute } from './peer-connection.ts'

/** Interface whose address a socket has here: from the zone of a link-local address, else by looking it up. */
export function interfaceOf(socket: Socket): string | undefined {
  const address = plainAddress(socket.localAddress ?? '')
  const zone = address.split('%')[1]
  if (zone !== undefined) return zone
  const found = Object.entries(networkInterfaces()).find(([, entries]) =>
    entries?.some((entry) => entry.address === address),
  )
  return found?.[0]
}

/** An address without the prefix that IPv4 has on a socket for both families. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

/** What this host tells the peer about its end of a connection. */
export function endOf(cable: CableLink | undefined, interfaceName: string | undefined): LinkEnd {
  return { uuid: cable?.localUuid, port: cable?.port, interfaceName, mtu: cable?.mtu }
}

/**
 * The way a connection takes. A cable has the same id at both ends: it comes from both controllers' UUIDs and ports where
 * both are known, else from both addresses. Only this host's device tree makes a link a cable; what the peer says of
 * its end names it and nothing more.
 */
export function routeOf(socket: Socket, cable: CableLink | undefined, remote: LinkEnd, peerId: string): LinkRoute {
  const localAddress = plainAddress(socket.localAddress ?? '')
  const address = plainAddress(socket.remoteAddress ?? '')
  const interfaceName = interfaceOf(socket)
  if (cable === undefined)
    return {
      id: `network:${interfaceName ?? localAddress}:${peerId.slice(0, 8)}`,
      kind: 'network',
      interfaceName,
      address,
      localAddress,
    }
  const isNamed = cable.localUuid !== undefined && remote.uuid !== undefined && remote.port !== undefined
  const ends = isNamed
    ? [`${cable.localUuid} ${cable.port}`, `${remote.uuid} ${remote.port}`]
    : [withoutZone(localAddress), withoutZone(address)]
  const digest = createHash('sha256').update(ends.toSorted().join('\n')).digest('hex')
  return { id: `cable:${digest.slice(0, 16)}`, kind: 'thunderbolt', interfaceName, address, localAddress }
}

function withoutZone(address: string): string {
  return address.split('%')[0] as string
}
