import type { ResponsePacket } from 'multicast-dns'
import { isTag } from '../identity/host-tag.ts'
import { isFingerprint } from '../identity/identity.ts'

/** A DNS record, as `multicast-dns` gives and takes it. */
export type Answer = NonNullable<ResponsePacket['answers']>[number]
type TxtAnswer = Extract<Answer, { type: 'TXT' }>
type SrvAnswer = Extract<Answer, { type: 'SRV' }>

/** The DNS-SD service (RFC 6763) hosts look for each other by. */
export const serviceName = '_egpu-mesh._tcp.local'
const version = '1'
/** Seconds a neighbour may remember it; what is true is decided by connecting. */
const ttl = 120
/** More services than one cable has hosts are somebody's joke. */
const mostPerPacket = 16

/** What a host says of itself to anybody on the cable. Nothing of it is believed until a connection proves it. */
export interface Announcement {
  readonly nodeId: string
  readonly instance: string
  readonly hostTag: string
  /** Of the control plane. */
  readonly port: number
  /** Somebody there waits for a pairing. */
  readonly pairing: boolean
}

/** An announcement as DNS-SD records. They carry no address: it is taken from where the packet came. */
export function toRecords({ nodeId, instance, hostTag, port, pairing }: Announcement): Answer[] {
  const name = `${instance}.${serviceName}`
  const text = [`v=${version}`, `id=${nodeId}`, `host=${hostTag}`, ...(pairing ? ['pair=1'] : [])]
  return [
    { name: serviceName, type: 'PTR', ttl, data: name },
    { name, type: 'SRV', ttl, data: { port, target: `${instance}.local`, priority: 0, weight: 0 } },
    { name, type: 'TXT', ttl, data: text },
  ]
}

/** The announcements in a response; whatever is not complete and well-formed is left out. */
export function fromRecords(records: readonly Answer[]): readonly Announcement[] {
  const texts = new Map(records.filter(isText).map((record) => [record.name.toLowerCase(), record]))
  const services = records.filter(isService).slice(0, mostPerPacket)
  return services.flatMap(({ name, data: { port } }) => {
    const instance = /^([\da-f]{16})\._egpu-mesh\._tcp\.local$/.exec(name.toLowerCase())?.[1]
    const values = valuesOf(texts.get(name.toLowerCase()))
    const nodeId = values.get('id')
    const hostTag = values.get('host') ?? ''
    if (instance === undefined || values.get('v') !== version || !isFingerprint(nodeId)) return []
    if (!isTag(hostTag) || !Number.isInteger(port) || port < 1 || port > 65_535) return []
    return [{ nodeId, instance, hostTag, port, pairing: values.get('pair') === '1' }]
  })
}

function isText(record: Answer): record is TxtAnswer {
  return record.type === 'TXT'
}

function isService(record: Answer): record is SrvAnswer {
  return record.type === 'SRV'
}

function valuesOf(record: TxtAnswer | undefined): ReadonlyMap<string, string> {
  const parts = record === undefined ? [] : Array.isArray(record.data) ? record.data : [record.data]
  return new Map(
    parts.flatMap((part) => {
      const text = part.toString()
      const at = text.indexOf('=')
      return at < 1 ? [] : [[text.slice(0, at), text.slice(at + 1)] as const]
    }),
  )
}
