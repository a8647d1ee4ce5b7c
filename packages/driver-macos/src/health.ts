import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { HealthSample } from '@egpu/core'
import type { DeviceObservation } from '@egpu/core/driver'
import type { Registry, RegistryEntry } from './registry/source.ts'
import { asDictionary, asNumber, asReal } from './registry/value.ts'
import type { RegistryValue } from './registry/value.ts'

const maxLevels = 8

/** What Apple documents nowhere and others have read off real Macs. Keys without such a source are left alone. */
const statisticsKeys = {
  /** exelban/stats, Modules/GPU/reader.swift. */
  temperature: 'Temperature(C)',
  /** A Polaris card's dump in gao-sun/eul issue 187. */
  power: 'Total Power(W)',
  /** xythobuz/CaseLights, CaseLights/GPUStats.m, after https://stackoverflow.com/a/22440235; the next one too. */
  memoryUsed: 'vramUsedBytes',
  memoryFree: 'vramFreeBytes',
} as const

/**
 * What the driver of a GPU publishes about itself (`PerformanceStatistics` of its IOAccelerator) and how the link
 * fares against the best this process has seen. A GPU without a driver that Metal knows publishes nothing.
 */
export function readHealth(
  registry: Registry,
  entryId: bigint,
  device: DeviceObservation,
  atMs: number,
  bestGBps: Map<string, number>,
): HealthSample {
  const entry = registry.entry(entryId)
  if (entry === undefined) throw lost(device.key, 'it left the registry')
  try {
    if (device.stage === 'wedged') throw lost(device.key, 'it did not answer when the Mac woke up')
    const statistics = asDictionary(findStatistics(entry, maxLevels)) ?? {}
    const used = bytes(statistics[statisticsKeys.memoryUsed])
    const free = bytes(statistics[statisticsKeys.memoryFree])
    const total = device.gpu.memoryBytes ?? (used === undefined || free === undefined ? undefined : used + free)
    return {
      atMs,
      temperatureCelsius: temperature(statistics[statisticsKeys.temperature]),
      powerWatts: positive(statistics[statisticsKeys.power]),
      // A driver that counts shared memory too may claim more than there is.
      memoryUsedBytes: used !== undefined && total !== undefined && used > total ? undefined : used,
      memoryTotalBytes: total,
      linkRatio: linkRatio(device, bestGBps),
    }
  } finally {
    entry[Symbol.dispose]()
  }
}

function findStatistics(entry: RegistryEntry, levels: number): RegistryValue | undefined {
  if (levels === 0) return undefined
  const own = entry.conformsTo('IOAccelerator') ? entry.property('PerformanceStatistics') : undefined
  if (own !== undefined) return own
  let found: RegistryValue | undefined
  for (const child of entry.children()) {
    found ??= findStatistics(child, levels - 1)
    child[Symbol.dispose]()
  }
  return found
}

/**
 * 0 is what AMD's drivers publish for cards whose sensor they do not read (crystalidea/macs-fan-control issue 410), 128
 * what a sensor that does not answer reads as (exelban/stats, Modules/GPU/reader.swift).
 */
function temperature(value: RegistryValue | undefined): number | undefined {
  const celsius = asReal(value)
  return celsius === undefined || celsius <= 0 || celsius >= 128 ? undefined : celsius
}

function bytes(value: RegistryValue | undefined): number | undefined {
  const number = asNumber(value)
  return number === undefined || number < 0 ? undefined : number
}

function positive(value: RegistryValue | undefined): number | undefined {
  const number = asReal(value)
  return number === undefined || number <= 0 ? undefined : number
}

function linkRatio(device: DeviceObservation, bestGBps: Map<string, number>): number | undefined {
  const now = device.link?.effectiveGBps?.toDevice
  if (now === undefined) return undefined
  const best = Math.max(now, bestGBps.get(device.key) ?? 0)
  bestGBps.set(device.key, best)
  return best === 0 ? undefined : now / best
}

function lost(key: string, why: string): EGpuError {
  const message = `${key} is lost: ${why}; plug it in anew`
  return new EGpuError(EGpuErrorCode.DeviceLost, message, { driver: 'macos', deviceId: key })
}
