import { basename, dirname, join } from 'node:path'
import { ThunderboltSpeed, type TrainedLanes } from '@egpu/core'
import { assertKind, text } from '../arguments.ts'
import type { CableInventory, CableLink } from './cable-link.ts'
import { listDirectory, readLine, readNumber, readUevent, resolvedPath } from './sysfs-text.ts'

/** `prtcstns` bit 0: the host can do end-to-end flow control (drivers/net/thunderbolt/main.c, TBNET_E2E). */
const e2eFlag = 0x1

/**
 * Cables to other hosts, read from sysfs: network interface → service → XDomain. Only the device tree says that an
 * interface runs over a Thunderbolt cable: names are changed by udev, MAC addresses at every link-up, and 169.254/16
 * is on any unconfigured network card. Opens only attributes that the kernel answers from memory.
 * @param root where sysfs is mounted; a test hands over a recorded machine.
 */
export function linuxInventory(root: string = '/sys'): CableInventory {
  assertKind('root', root, text)
  const devices = join(root, 'bus/thunderbolt/devices')
  const names = listDirectory(devices)
  const interfaces = interfacesByService(root)
  const links: CableLink[] = []
  const loops: { port: string; uuid: string }[] = []
  const hosts = new Map<string, HostRouter>()
  for (const name of names.toSorted()) {
    const [domain, route] = splitName(name)
    if (domain === undefined || route === undefined || route === 0n) continue
    const path = join(devices, name)
    if (readUevent(join(path, 'uevent'))['DEVTYPE'] !== 'thunderbolt_xdomain') continue
    const host = hosts.get(domain) ?? readHostRouter(join(devices, `${domain}-0`))
    hosts.set(domain, host)
    const remoteUuid = readLine(join(path, 'unique_id'))
    const port = `domain${domain}/port${Number(route & 0xffn)}`
    links.push({
      ...readLink(path, interfaces),
      port,
      key: `${port}/${remoteUuid}`,
      remoteUuid,
      ...host,
      hubs: hops(route) - 1,
    })
  }
  const own = new Set(names.flatMap((name) => ownUuid(devices, name)))
  const isLoop = ({ remoteUuid }: CableLink): boolean => remoteUuid !== undefined && own.has(remoteUuid)
  for (const link of links) if (isLoop(link)) loops.push({ port: link.port, uuid: link.remoteUuid as string })
  return {
    links: links.filter((link) => !isLoop(link)),
    loops,
    e2e: readFlag(join(root, 'module/thunderbolt_net/parameters/e2e')),
    networkDriver: names.length === 0 ? undefined : hasNetworkDriver(root) ? 'loaded' : 'missing',
  }
}

interface HostRouter {
  readonly localUuid: string | undefined
  readonly sticker: ThunderboltSpeed | undefined
}

function readHostRouter(path: string): HostRouter {
  const generation = readNumber(join(path, 'generation'))
  const isVersion2 = readUevent(join(path, 'uevent'))['USB4_VERSION']?.startsWith('2') === true
  return { localUuid: readLine(join(path, 'unique_id')), sticker: stickerOf(generation, isVersion2) }
}

/** The kernel counts USB4 of both versions, and so Thunderbolt 4 and 5, as generation 4. */
function stickerOf(generation: number | undefined, isVersion2: boolean): ThunderboltSpeed | undefined {
  if (generation === 4) return isVersion2 ? ThunderboltSpeed.TB5 : ThunderboltSpeed.TB4
  return [undefined, ThunderboltSpeed.TB1, ThunderboltSpeed.TB2, ThunderboltSpeed.TB3][generation ?? 0]
}

type LinkOfDevice = Omit<CableLink, 'key' | 'port' | 'localUuid' | 'remoteUuid' | 'sticker' | 'hubs'>

function readLink(path: string, interfaces: ReadonlyMap<string, NetworkInterface>): LinkOfDevice {
  const services = listDirectory(resolvedPath(path) ?? path).filter((name) => /^\d+-[\da-f]+\.\d+$/.test(name))
  const service = services.find((name) => readLine(join(path, name, 'key')) === 'network')
  const found = services.map((name) => interfaces.get(name)).find((candidate) => candidate !== undefined)
  const flags = service === undefined ? undefined : readNumber(join(path, service, 'prtcstns'))
  return {
    remoteName: readLine(join(path, 'device_name')),
    interfaceName: found?.name,
    mtu: found?.mtu,
    trained: { receive: readLanes(path, 'rx'), transmit: readLanes(path, 'tx') },
    networkService: service === undefined ? undefined : { e2e: ((flags ?? 0) & e2eFlag) !== 0 },
  }
}

/** Speed is per lane, as in `20.0 Gb/s`; a kernel that does not tell the lanes leaves the direction unknown. */
function readLanes(path: string, direction: 'rx' | 'tx'): TrainedLanes | undefined {
  const speed = /^(\d+(?:\.\d+)?) Gb\/s$/.exec(readLine(join(path, `${direction}_speed`)) ?? '')?.[1]
  const lanes = readNumber(join(path, `${direction}_lanes`))
  if (speed === undefined || lanes === undefined || lanes === 0 || Number(speed) === 0) return undefined
  return { lanes, gbpsPerLane: Number(speed) }
}

interface NetworkInterface {
  readonly name: string
  readonly mtu: number | undefined
}

/** Interfaces whose device is a Thunderbolt service, by the name of the service. */
function interfacesByService(root: string): ReadonlyMap<string, NetworkInterface> {
  const folder = join(root, 'class/net')
  const found = new Map<string, NetworkInterface>()
  for (const name of listDirectory(folder)) {
    const device = resolvedPath(join(folder, name, 'device'))
    if (device === undefined || !/^\d+-[\da-f]+\.\d+$/.test(basename(device))) continue
    if (splitName(basename(dirname(device)))[0] === undefined) continue
    found.set(basename(device), { name, mtu: readNumber(join(folder, name, 'mtu')) })
  }
  return found
}

/** `<domain>-<route in hex>`: one byte per hop, the port of this host in the lowest. */
function splitName(name: string): [string, bigint] | [undefined, undefined] {
  const [, domain, route] = /^(\d+)-([\da-f]{1,16})$/.exec(name) ?? []
  return domain === undefined ? [undefined, undefined] : [domain, BigInt(`0x${route}`)]
}

function hops(route: bigint): number {
  return Math.ceil(route.toString(16).length / 2)
}

function ownUuid(devices: string, name: string): string[] {
  if (!/^\d+-0$/.test(name)) return []
  const uuid = readLine(join(devices, name, 'unique_id'))
  return uuid === undefined ? [] : [uuid]
}

/** Built in or loaded, it registers a driver for Thunderbolt services under this name. */
function hasNetworkDriver(root: string): boolean {
  return (
    listDirectory(join(root, 'bus/thunderbolt/drivers')).includes('thunderbolt-net') ||
    resolvedPath(join(root, 'module/thunderbolt_net')) !== undefined
  )
}

function readFlag(path: string): boolean | undefined {
  const line = readLine(path)
  return line === 'Y' || line === '1' ? true : line === 'N' || line === '0' ? false : undefined
}
