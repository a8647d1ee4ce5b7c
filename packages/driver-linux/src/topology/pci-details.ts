import {
  pciAddressesIn,
  parseBars,
  parseDecimal,
  parseFlag,
  parseLargestBar,
  parsePcieSpeed,
  parsePcieWidth,
  parseSerialNumber,
} from '../sysfs/parse.ts'
import { textOf } from '../sysfs/sysfs.ts'
import type { Sysfs } from '../sysfs/sysfs.ts'
import { isGpu } from './functions.ts'
import type { PciDetails, PciFunction, PciLink, RuntimeStatus } from './types.ts'

export interface DetailOptions {
  /** Read link, serial number and BAR sizes of sleeping devices too, which wakes them. */
  readonly wakeSuspended: boolean
}

const runtimeStatuses: ReadonlySet<string> = new Set<RuntimeStatus>([
  'active',
  'suspended',
  'suspending',
  'resuming',
  'unsupported',
  'error',
])

/** What only few devices are asked for. Attributes that reach into the device are read while it is awake only. */
export function readPciDetails(sysfs: Sysfs, device: PciFunction, options: DetailOptions): PciDetails {
  const { path } = device
  const text = (attribute: Parameters<Sysfs['read']>[1]): string | undefined => textOf(sysfs.read(path, attribute))
  const status = text('power/runtime_status')
  const powerState = text('power_state')
  const awake = options.wakeSuspended || (status === 'active' && powerState?.startsWith('D3') !== true)
  const gpu = isGpu(device)
  const serial = awake ? sysfs.read(path, 'serial_number') : undefined
  return {
    removable: oneOf(text('removable'), ['removable', 'fixed', 'unknown']),
    bootVga: gpu ? parseFlag(text('boot_vga')) : undefined,
    physicalFunction: gpu ? pciAddressesIn(sysfs.link(`${path}/physfn`) ?? '').at(-1) : undefined,
    runtimeStatus: status !== undefined && runtimeStatuses.has(status) ? (status as RuntimeStatus) : undefined,
    powerState: powerState !== undefined && /^D[0-3](?:hot|cold)?$/.test(powerState) ? powerState : undefined,
    acpiPath: text('firmware_node/path'),
    iommuGroup: gpu ? /([^/]+)$/.exec(sysfs.link(`${path}/iommu_group`) ?? '')?.[1] : undefined,
    bars: gpu ? parseBars(text('resource')) : [],
    largestBarBytes: gpu && awake ? readLargestBars(sysfs, path) : new Map(),
    vramBytes: gpu ? parseDecimal(text('mem_info_vram_total')) : undefined,
    link: awake ? readLink(sysfs, path) : undefined,
    serial: typeof serial === 'string' ? parseSerialNumber(serial) : undefined,
    serialForbidden: typeof serial === 'object' && (serial.error === 'EACCES' || serial.error === 'EPERM'),
  }
}

function oneOf<Word extends string>(text: string | undefined, words: readonly Word[]): Word | undefined {
  return words.find((word) => word === text)
}

/**
 * Once the kernel knows that the device is off the bus, it answers EINVAL for the current link and 255 for the widest.
 * Before, configuration space reads all-ones, and the six bits of a width are 63 (drivers/pci/pci.c). A directory in place of the attribute (EISDIR) stands for EINVAL in recorded
 * trees, because a plain file cannot refuse to be read.
 */
function readLink(sysfs: Sysfs, path: string): PciLink | undefined {
  const speed = sysfs.read(path, 'current_link_speed')
  const width = sysfs.read(path, 'current_link_width')
  const maxSpeed = textOf(sysfs.read(path, 'max_link_speed'))
  const maxWidth = textOf(sysfs.read(path, 'max_link_width'))
  const refused = [speed, width].some((reading) => typeof reading === 'object' && deadErrors.has(reading.error))
  if (!refused && textOf(speed) === undefined && textOf(width) === undefined && maxWidth === undefined) return undefined
  return {
    gtPerSecond: parsePcieSpeed(textOf(speed)),
    lanes: parsePcieWidth(textOf(width)),
    maxGtPerSecond: parsePcieSpeed(maxSpeed),
    maxLanes: parsePcieWidth(maxWidth),
    dead: refused || maxWidth === '255' || maxWidth === '63',
  }
}

const deadErrors: ReadonlySet<string> = new Set(['EINVAL', 'EISDIR'])

function readLargestBars(sysfs: Sysfs, path: string): ReadonlyMap<number, number> {
  const sizes = new Map<number, number>()
  for (const index of [0, 1] as const) {
    const size = parseLargestBar(textOf(sysfs.read(path, `resource${index}_resize`)))
    if (size !== undefined) sizes.set(index, size)
  }
  return sizes
}
