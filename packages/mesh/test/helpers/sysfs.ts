import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Lanes and Gb/s per lane, as a kernel prints them. */
export type Lanes = readonly [lanes: number, gbpsPerLane: number]

export interface RemoteHost {
  /** Ports along the way: `[3]` for a plain cable at port 3, `[3, 5]` behind port 5 of a hub. */
  readonly route: readonly number[]
  readonly uuid: string
  readonly name: string
  readonly receive?: Lanes | undefined
  readonly transmit?: Lanes | undefined
  /** What the remote host says about its network service; `undefined` when it offers none. */
  readonly service?: { readonly e2e: boolean } | undefined
  readonly interfaceName?: string | undefined
  readonly mtu?: number | undefined
}

export interface HostController {
  readonly uuid: string
  readonly generation?: number | undefined
  readonly usb4Version?: string | undefined
  readonly remotes: readonly RemoteHost[]
}

export interface SysfsHost {
  readonly controllers: readonly HostController[]
  /** The module parameter. */
  readonly e2e?: boolean | undefined
  /** Whether thunderbolt_net is loaded. */
  readonly networkDriver?: boolean | undefined
  /** Interfaces that run over something else. */
  readonly otherInterfaces?: readonly string[] | undefined
  readonly bridges?: Readonly<Record<string, readonly string[]>> | undefined
}

/**
 * A sysfs tree as the Thunderbolt bus lays it out (drivers/thunderbolt/xdomain.c): devices nested along the route, one
 * symlink per device on the bus, and a network interface whose `device` is the service.
 */
export function makeSysfs(root: string, host: SysfsHost): string {
  const bus = join(root, 'bus/thunderbolt/devices')
  const net = join(root, 'class/net')
  mkdirSync(bus, { recursive: true })
  mkdirSync(net, { recursive: true })
  for (const [domain, controller] of host.controllers.entries()) {
    const top = join(root, `devices/pci0000:00/0000:00:0d.${domain}/domain${domain}`)
    const router = join(top, `${domain}-0`)
    write(router, {
      uevent: [
        'DEVTYPE=thunderbolt_device',
        ...(controller.usb4Version ? [`USB4_VERSION=${controller.usb4Version}`] : []),
      ],
      unique_id: controller.uuid,
      generation: controller.generation ?? 4,
      authorized: 1,
      device_name: 'Host',
    })
    link(router, bus)
    for (const remote of controller.remotes) addRemote(remote, domain, router, bus, net)
  }
  if (host.networkDriver ?? true) {
    mkdirSync(join(root, 'bus/thunderbolt/drivers/thunderbolt-net'), { recursive: true })
    write(join(root, 'module/thunderbolt_net/parameters'), { e2e: (host.e2e ?? true) ? 'Y' : 'N' })
  }
  for (const name of host.otherInterfaces ?? []) {
    const device = join(root, 'devices/pci0000:00', `0000:00:1f.6-${name}`)
    write(device, { uevent: ['DRIVER=e1000e'] })
    write(join(device, 'net', name), { mtu: 1500 })
    link(join(device, 'net', name), net)
    symlinkSync('../..', join(device, 'net', name, 'device'))
  }
  for (const [bridge, members] of Object.entries(host.bridges ?? {}))
    for (const member of members) mkdirSync(join(net, bridge, 'brif', member), { recursive: true })
  return root
}

function addRemote(remote: RemoteHost, domain: number, router: string, bus: string, net: string): void {
  let parent = router
  const ports: number[] = []
  for (const port of remote.route.slice(0, -1)) {
    ports.push(port)
    parent = join(parent, nameOf(domain, ports))
    write(parent, { uevent: ['DEVTYPE=thunderbolt_device'], unique_id: 'hub', generation: 4, authorized: 1 })
  }
  const name = nameOf(domain, remote.route)
  const path = join(parent, name)
  const lanes = (prefix: 'rx' | 'tx', value: Lanes | undefined): Record<string, string | number> =>
    value === undefined ? {} : { [`${prefix}_lanes`]: value[0], [`${prefix}_speed`]: `${value[1].toFixed(1)} Gb/s` }
  write(path, {
    uevent: ['DEVTYPE=thunderbolt_xdomain'],
    unique_id: remote.uuid,
    device_name: remote.name,
    vendor_name: 'Intel Corp.',
    ...lanes('rx', remote.receive),
    ...lanes('tx', remote.transmit),
  })
  link(path, bus)
  if (remote.service === undefined) return
  const service = join(path, `${name}.0`)
  write(service, {
    uevent: ['DEVTYPE=thunderbolt_service'],
    key: 'network',
    prtcid: 1,
    prtcstns: `0x${(remote.service.e2e ? 0x80000003 : 0x80000002).toString(16)}`,
  })
  link(service, bus)
  if (remote.interfaceName === undefined) return
  const device = join(service, 'net', remote.interfaceName)
  write(device, { mtu: remote.mtu ?? 65_520 })
  link(device, net)
  symlinkSync('../..', join(device, 'device'))
}

/** One byte per hop, the first hop lowest. */
function nameOf(domain: number, ports: readonly number[]): string {
  return `${domain}-${ports.reduce((route, port, hop) => route + BigInt(port) * 256n ** BigInt(hop), 0n).toString(16)}`
}

function write(folder: string, values: Readonly<Record<string, string | number | readonly string[]>>): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, value] of Object.entries(values))
    writeFileSync(join(folder, name), `${Array.isArray(value) ? value.join('\n') : String(value)}\n`)
}

function link(target: string, folder: string): void {
  const path = join(folder, target.slice(dirname(target).length + 1))
  mkdirSync(folder, { recursive: true })
  symlinkSync(target, path)
}
