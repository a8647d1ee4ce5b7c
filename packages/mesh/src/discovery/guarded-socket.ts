import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'

/** Length of a DNS header, and of the shortest question: an empty name, type, class (RFC 1035, section 4.1). */
const headerBytes = 12
const shortestEntry = 5

/** With the headers below (RFC 6762, section 17). */
const mostBytes = 9_000

/** Entries that a packet counts, of all four kinds. */
export function entriesOf(packet: Buffer): number {
  return [4, 6, 8, 10].reduce((sum, offset) => sum + packet.readUInt16BE(offset), 0)
}

/**
 * A packet can be what its header says: entries it counts have to fit into it. The decoder of `dns-packet` takes the header's
 * word for it and spends milliseconds on 12 bytes that claim 65,535 records, which anybody on the cable could send.
 */
export function isPlausible(packet: Buffer): boolean {
  if (packet.length < headerBytes || packet.length > mostBytes) return false
  return headerBytes + entriesOf(packet) * shortestEntry <= packet.length
}

/** Packets that one cable's hosts may need to be heard: at once, and in a second. Whatever is above is not decoded. */
const most = { atOnce: 100, perSecond: 200 } as const
/**
 * Entries that count as one packet. Each can take the decoder 10 µs, with a name of 126 labels that it points to in 2 bytes: 9,000
 * bytes of them take 15 ms, and 65,000 take 130 ms.
 */
const entriesPerPacket = 8

/** Lets through so many packets and no more, at first all at once and then as time goes by. */
export function rateGate(now: () => number = () => performance.now()): (entries?: number) => boolean {
  let left: number = most.atOnce
  let atMs = now()
  return (entries = 0) => {
    const nowMs = now()
    left = Math.min(most.atOnce, left + ((nowMs - atMs) / 1_000) * most.perSecond)
    atMs = nowMs
    const cost = Math.max(1, entries / entriesPerPacket)
    if (left < cost) return false
    left -= cost
    return true
  }
}

/**
 * A UDP socket for multicast DNS on one interface that hands on plausible packets from there, and not more than so many. On
 * Linux every such socket hears all interfaces: the zone of the sender tells which one it was.
 */
export function guardedSocket(zone: string): Socket {
  const socket = createSocket({ type: 'udp6', reuseAddr: true })
  const emit = socket.emit.bind(socket)
  const isWithinRate = rateGate()
  const isHeard = (packet: Buffer, { address }: RemoteInfo): boolean =>
    address.split('%')[1] === zone && isPlausible(packet) && isWithinRate(entriesOf(packet))
  socket.emit = (event: string, ...args: unknown[]): boolean =>
    event === 'message' && !isHeard(args[0] as Buffer, args[1] as RemoteInfo) ? false : emit(event, ...args)
  return socket
}
