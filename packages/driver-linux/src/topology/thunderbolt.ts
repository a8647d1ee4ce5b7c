import {
  pciAddressesIn,
  parseDecimal,
  parseFlag,
  parseId,
  parseLaneSpeed,
  parseName,
  parseUevent,
  parseUuid,
} from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Attribute } from '../sysfs/attributes.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import { hopsOf, parentNameOf } from './route.ts'
import type {
  ThunderboltDomain,
  ThunderboltPeer,
  ThunderboltRetimer,
  ThunderboltRouter,
  ThunderboltTopology,
  Usb4Port,
} from './types.ts'

const devices = 'bus/thunderbolt/devices'

/**
 * Domains, routers, retimers and peers. An empty bus is normal: a Thunderbolt 3 controller powers off while nothing is
 * plugged in, and takes its domain with it.
 */
export function readThunderbolt(sysfs: Sysfs): ThunderboltTopology {
  const domains: ThunderboltDomain[] = []
  const routers: ThunderboltRouter[] = []
  const retimers: ThunderboltRetimer[] = []
  const peers: ThunderboltPeer[] = []
  const ports: Usb4Port[] = []
  for (const name of sysfs.list(devices)) {
    const path = `${devices}/${name}`
    if (/^domain\d{1,6}$/.test(name)) domains.push(readDomain(sysfs, name, path))
    else if (/^\d{1,6}-[\da-f]{1,16}$/.test(name)) {
      const uevent = parseUevent(textOf(sysfs.read(path, 'uevent')))
      if (isPeer(sysfs, path, uevent)) peers.push(readPeer(sysfs, name, path))
      else {
        const router = readRouter(sysfs, name, path, uevent)
        // It went between the listing and the reading.
        if (uevent.size === 0 && router.uniqueId === undefined && router.authorized === undefined) continue
        routers.push(router)
        ports.push(...readPorts(sysfs, name, path))
      }
    } else {
      const retimer = readRetimer(sysfs, name, path)
      if (retimer !== undefined) retimers.push(retimer)
    }
  }
  return { domains, routers, retimers, peers, ports }
}

/** The kernel gives hosts and boxes names of the same shape; only the device type tells them apart. */
function isPeer(sysfs: Sysfs, path: string, uevent: ReadonlyMap<string, string>): boolean {
  const type = uevent.get('DEVTYPE')
  if (type !== undefined) return type === 'thunderbolt_xdomain'
  return textOf(sysfs.read(path, 'maxhopid')) !== undefined
}

function readDomain(sysfs: Sysfs, name: string, path: string): ThunderboltDomain {
  return {
    name,
    index: Number(name.slice('domain'.length)),
    hostInterface: pciAddressesIn(sysfs.link(path) ?? '').at(-1),
    security: textOf(sysfs.read(path, 'security')),
    iommuDmaProtection: parseFlag(textOf(sysfs.read(path, 'iommu_dma_protection'))),
    deauthorization: parseFlag(textOf(sysfs.read(path, 'deauthorization'))),
  }
}

function readRouter(sysfs: Sysfs, name: string, path: string, uevent: ReadonlyMap<string, string>): ThunderboltRouter {
  const text = (attribute: Attribute): string | undefined => textOf(sysfs.read(path, attribute))
  const hops = hopsOf(name)
  const isHost = hops.length === 0
  const type = uevent.get('USB4_TYPE')
  return {
    name,
    path,
    domain: Number(name.slice(0, name.indexOf('-'))),
    hops,
    parent: parentNameOf(name),
    isHost,
    uniqueId: parseUuid(text('unique_id')),
    authorized: parseAuthorized(text('authorized')),
    boot: isHost ? undefined : parseFlag(text('boot')),
    vendorId: parseId(text('vendor')),
    deviceId: parseId(text('device')),
    vendorName: parseName(text('vendor_name')),
    deviceName: parseName(text('device_name')),
    generation: parseGeneration(text('generation')),
    firmwareVersion: parseName(text('nvm_version')),
    receive: isHost ? {} : { lanes: parseLanes(text('rx_lanes')), gbps: parseLaneSpeed(text('rx_speed')) },
    transmit: isHost ? {} : { lanes: parseLanes(text('tx_lanes')), gbps: parseLaneSpeed(text('tx_speed')) },
    usb4Version: parseName(uevent.get('USB4_VERSION')),
    usb4Type: type === 'host' || type === 'hub' || type === 'device' ? type : undefined,
  }
}

function parseAuthorized(text: string | undefined): number | undefined {
  const value = parseDecimal(text)
  return value !== undefined && value <= 2 ? value : undefined
}

function parseGeneration(text: string | undefined): number | undefined {
  const value = parseDecimal(text)
  return value !== undefined && value >= 1 && value <= 9 ? value : undefined
}

/** One, two, or three of an asymmetric link. */
function parseLanes(text: string | undefined): number | undefined {
  const value = parseDecimal(text)
  return value !== undefined && value >= 1 && value <= 3 ? value : undefined
}

function readPeer(sysfs: Sysfs, name: string, path: string): ThunderboltPeer {
  return {
    name,
    domain: Number(name.slice(0, name.indexOf('-'))),
    uniqueId: parseUuid(textOf(sysfs.read(path, 'unique_id'))),
    hostName: parseName(textOf(sysfs.read(path, 'device_name'))),
  }
}

/** `0-0:1.1`: first retimer of port 1 of router 0-0. Retimers appear without anything attached, too. */
function readRetimer(sysfs: Sysfs, name: string, path: string): ThunderboltRetimer | undefined {
  const match = /^(\d{1,6}-[\da-f]{1,16}):(\d{1,3})\.\d{1,3}$/.exec(name)
  if (match === null) return undefined
  return {
    name,
    router: match[1] as string,
    port: Number(match[2]),
    vendorId: parseId(textOf(sysfs.read(path, 'vendor'))),
    deviceId: parseId(textOf(sysfs.read(path, 'device'))),
  }
}

function readPorts(sysfs: Sysfs, router: string, path: string): readonly Usb4Port[] {
  return sysfs.list(path).flatMap((name) => {
    const port = /^usb4_port(\d{1,3})$/.exec(name)?.[1]
    if (port === undefined) return []
    const link = textOf(sysfs.read(`${path}/${name}`, 'link'))
    return {
      router,
      port: Number(port),
      link: link === 'usb4' || link === 'tbt' || link === 'none' ? link : undefined,
      typecPort: /(?:^|\/)(port\d{1,4})$/.exec(sysfs.link(`${path}/${name}/connector`) ?? '')?.[1],
    }
  })
}
