import type { AbortOptions } from '@egpu/core'
import { pciAddressesIn, pciAddressPattern } from '../sysfs/parse.ts'
import { openSysfs, textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import { readDrmCards } from './drm.ts'
import { isGpu, isHostInterface, isKnownTunnelPort } from './functions.ts'
import { readMachine } from './machine.ts'
import { listPciAddresses, readPciFunction } from './pci.ts'
import { readPciDetails } from './pci-details.ts'
import { readThunderbolt } from './thunderbolt.ts'
import { readTypecPorts } from './typec.ts'
import type { PciFunction, Topology } from './types.ts'

export interface ReadTopologyOptions extends AbortOptions {
  /** A proc root of the same machine, for the kernel's release. */
  readonly proc?: Sysfs | undefined
  /** Also read what reaches into sleeping devices. Wakes them. */
  readonly wakeSuspended?: boolean | undefined
}

/** Reading is synchronous, so it lets others run after this many milliseconds of it. */
const turnMs = 4

/**
 * Reads the whole machine below a sysfs root (a directory, or a reader of one). Opens only what `attributes` lists,
 * and nothing that would wake a sleeping device. Whatever cannot be read is left out. Rejects only with the abort
 * reason.
 */
export async function readTopology(root: string | Sysfs, options: ReadTopologyOptions = {}): Promise<Topology> {
  const sysfs = typeof root === 'string' ? openSysfs(root) : root
  const { signal } = options
  const turn = makeTurns(signal)
  const pci = new Map<string, PciFunction>()
  for (const address of listPciAddresses(sysfs)) {
    const device = readPciFunction(sysfs, address)
    if (device !== undefined) pci.set(address, device)
    await turn()
  }
  const deviceLinks = readDeviceLinks(sysfs)
  const hostInterfaces = [...pci.values()].filter(isHostInterface).map(({ address }) => address)
  for (const address of worthDetails(pci, hostInterfaces, deviceLinks)) {
    const device = pci.get(address)
    if (device === undefined) continue
    const details = readPciDetails(sysfs, device, { wakeSuspended: options.wakeSuspended ?? false })
    pci.set(address, { ...device, details })
    await turn()
  }
  const thunderbolt = readThunderbolt(sysfs)
  await turn()
  const drmCards = readDrmCards(sysfs)
  await turn()
  return {
    machine: readMachine(sysfs, options.proc),
    pci,
    hostInterfaces,
    thunderbolt,
    drmCards,
    hwmon: readHwmon(sysfs),
    typecPorts: readTypecPorts(sysfs),
    deviceLinks,
    hotplugSlots: readHotplugSlots(sysfs),
  }
}

/** Awaits a macrotask when a turn's time is used up, and nothing otherwise. */
function makeTurns(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  signal?.throwIfAborted()
  let began = performance.now()
  return () => {
    if (performance.now() - began < turnMs) return undefined
    return new Promise((resolve, reject) => {
      setImmediate(() => {
        began = performance.now()
        if (signal?.aborted === true) reject(signal.reason)
        else resolve()
      })
    })
  }
}

/** GPUs, the bridges above them, host interfaces, and the ports that lead to a cable. */
function worthDetails(
  pci: ReadonlyMap<string, PciFunction>,
  hostInterfaces: readonly string[],
  links: Topology['deviceLinks'],
): ReadonlySet<string> {
  const addresses = new Set<string>(hostInterfaces)
  for (const device of pci.values()) {
    const gpu = isGpu(device)
    if (gpu || isKnownTunnelPort(device)) addresses.add(device.address)
    if (gpu) for (const parent of device.parents) addresses.add(parent)
  }
  for (const [supplier, consumer] of links) if (hostInterfaces.includes(supplier)) addresses.add(consumer)
  return addresses
}

/** `class/devlink/pci:0000:00:0d.2--pci:0000:00:07.0`: supplier, then consumer (drivers/base/core.c). */
function readDeviceLinks(sysfs: Sysfs): Topology['deviceLinks'] {
  return sysfs.list('class/devlink').flatMap((name) => {
    const [supplier, consumer] = name.split('--').map((end) => (end.startsWith('pci:') ? end.slice(4) : ''))
    if (supplier === undefined || consumer === undefined) return []
    return pciAddressPattern.test(supplier) && pciAddressPattern.test(consumer) ? [[supplier, consumer] as const] : []
  })
}

function readHotplugSlots(sysfs: Sysfs): readonly string[] {
  return sysfs.list('bus/pci/slots').flatMap((name) => textOf(sysfs.read(`bus/pci/slots/${name}`, 'address')) ?? [])
}

function readHwmon(sysfs: Sysfs): Topology['hwmon'] {
  const byAddress = new Map<string, string[]>()
  for (const name of sysfs.list('class/hwmon')) {
    const address = pciAddressesIn(sysfs.link(`class/hwmon/${name}`) ?? '').at(-1)
    if (address !== undefined) byAddress.set(address, [...(byAddress.get(address) ?? []), `class/hwmon/${name}`])
  }
  return byAddress
}
