import type { TrainedLanes } from '@egpu/core'
import { assertOptions, kind, object, optional, type Kind } from '../arguments.ts'
import { plainText } from '../text.ts'
import type { CableInventory, CableLink } from './cable-link.ts'

/** What a Mac says about its Thunderbolt ports. The caller runs the two commands; nothing here starts a process. */
export interface MacosFacts {
  /** `system_profiler SPThunderboltDataType -json`, parsed. */
  readonly thunderbolt: unknown
  /** What `networksetup -listallhardwareports` printed: which interface belongs to which port. */
  readonly hardwarePorts: string
  /** MTU by interface, where known. */
  readonly mtu?: Readonly<Record<string, number>> | undefined
}

const factKinds: Readonly<Record<keyof MacosFacts, Kind>> = {
  // Another program's word: what cannot be understood is no cable.
  thunderbolt: kind('anything', () => true),
  hardwarePorts: kind('the text that networksetup printed', (value) => typeof value === 'string'),
  mtu: optional(object),
}

/**
 * Cables to other hosts, from a Mac's own tools. Hosts behind hubs are found too: a hub hides them from whoever looks
 * at the first level only (exo issue 1982). Trained lanes are known for `Up to 40 Gb/s` style rates only together with a
 * link width, so most Macs leave `trained` unknown: "up to" is what the port can do.
 */
export function macosInventory(facts: MacosFacts): CableInventory {
  assertOptions('what a Mac says', facts, factKinds)
  const { thunderbolt, hardwarePorts, mtu = {} } = facts
  const interfaces = interfacesByPort(hardwarePorts)
  const buses = items(thunderbolt, 'SPThunderboltDataType')
  const own = new Set(buses.flatMap((bus) => text(bus, 'domain_uuid_key') ?? []))
  const links: CableLink[] = []
  const loops: { port: string; uuid: string }[] = []
  for (const bus of buses) {
    const tag = receptacle(bus)
    const id = tag === undefined ? undefined : text(tag, 'receptacle_id_key')
    const port = id === undefined ? (text(bus, '_name') ?? 'unknown port') : `receptacle ${id}`
    const interfaceName = id === undefined ? undefined : interfaces.get(id)
    for (const { host, depth } of hosts(items(bus, '_items'), 0)) {
      const remoteUuid = text(host, 'domain_uuid_key')
      if (remoteUuid !== undefined && own.has(remoteUuid)) {
        loops.push({ port, uuid: remoteUuid })
        continue
      }
      links.push({
        key: `${port}/${remoteUuid}`,
        port,
        localUuid: text(bus, 'domain_uuid_key'),
        remoteUuid,
        remoteName: text(host, 'device_name_key') ?? text(host, '_name'),
        hubs: depth,
        interfaceName,
        mtu: interfaceName === undefined ? undefined : mtu[interfaceName],
        sticker: undefined,
        trained: { receive: lanesOf(tag), transmit: lanesOf(tag) },
        networkService: { e2e: false },
      })
    }
  }
  return { links, loops, e2e: undefined, networkDriver: buses.length === 0 ? undefined : 'loaded' }
}

type Item = Readonly<Record<string, unknown>>

/** Hosts have a domain of their own, hubs and devices do not. */
function* hosts(nodes: readonly Item[], depth: number): Generator<{ readonly host: Item; readonly depth: number }> {
  // A chain is seven routers long at most (Thunderbolt 3 specification); anything deeper is a broken dump.
  if (depth > 7) return
  for (const node of nodes) {
    if (text(node, 'domain_uuid_key') !== undefined) yield { host: node, depth }
    else yield* hosts(items(node, '_items'), depth + 1)
  }
}

function receptacle(bus: Item): Item | undefined {
  const key = Object.keys(bus).find((name) => /^receptacle_\d+_tag$/.test(name))
  const tag = key === undefined ? undefined : bus[key]
  return isItem(tag) ? tag : undefined
}

/** A current rate counts only together with its width, `0x2` for two lanes; "up to" alone is no measurement. */
function lanesOf(tag: Item | undefined): TrainedLanes | undefined {
  if (tag === undefined) return undefined
  const gbps = /(\d+) Gb\/s/.exec(text(tag, 'current_speed_key') ?? '')?.[1]
  const width = /^0x([12])$/.exec(text(tag, 'current_link_width_key') ?? '')?.[1]
  if (gbps === undefined || width === undefined) return undefined
  return { lanes: Number(width), gbpsPerLane: Number(gbps) / Number(width) }
}

/** `Hardware Port: Thunderbolt 2` followed by `Device: en3`. */
function interfacesByPort(hardwarePorts: string): ReadonlyMap<string, string> {
  const pairs = hardwarePorts.matchAll(/^Hardware Port: Thunderbolt (\d+)\r?\nDevice: (\w+)/gm)
  return new Map([...pairs].map(([, port, device]) => [port as string, device as string]))
}

function items(value: unknown, key: string): readonly Item[] {
  const list = isItem(value) ? value[key] : undefined
  return Array.isArray(list) ? list.filter(isItem) : []
}

function isItem(value: unknown): value is Item {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(item: Item, key: string): string | undefined {
  const value = item[key]
  if (typeof value !== 'string') return undefined
  const plain = plainText(value).trim()
  return plain === '' ? undefined : plain
}
