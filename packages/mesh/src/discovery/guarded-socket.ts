import { createSocket, type Socket } from 'node:dgram'

/** Length of a DNS header, and of the shortest question: an empty name, type, class (RFC 1035, section 4.1). */
const headerBytes = 12
const shortestEntry = 5

/**
 * A packet can be what its header says: entries it counts have to fit into it. The decoder of `dns-packet` takes the header's
 * word for it and spends milliseconds on 12 bytes that claim 65,535 records, which anybody on the cable could send.
 */
export function isPlausible(packet: Buffer): boolean {
  if (packet.length < headerBytes) return false
  const entries = [4, 6, 8, 10].reduce((sum, offset) => sum + packet.readUInt16BE(offset), 0)
  return headerBytes + entries * shortestEntry <= packet.length
}

/** A UDP socket for multicast DNS that hands on plausible packets only. */
export function guardedSocket(): Socket {
  const socket = createSocket({ type: 'udp6', reuseAddr: true })
  const emit = socket.emit.bind(socket)
  socket.emit = (event: string, ...args: unknown[]): boolean =>
    event === 'message' && !isPlausible(args[0] as Buffer) ? false : emit(event, ...args)
  return socket
}
