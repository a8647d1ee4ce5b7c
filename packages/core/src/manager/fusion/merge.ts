import type { DeviceObservation } from '../../driver/observation.ts'
import type { DeviceIdentity, DeviceSource, GpuDescription } from '../../types/device.ts'
import { vendorOfPciId } from '../../types/vendor.ts'
import type { Verdict } from '../../types/verdict.ts'
import type { Sighting } from './tracked-device.ts'
import { fuseVerdicts } from './verdict.ts'

/** What all drivers together know about a device at one moment. */
export interface Facts extends Omit<DeviceObservation, 'key' | 'verdict'> {
  readonly verdict: Verdict
  readonly sources: readonly DeviceSource[]
}

/**
 * Which source wins, field by field. `sightings` come most trusted first: drivers that know the bus, then the others,
 * each in the caller's order.
 *
 * - `stage`: a death that one driver saw is a death; short of that it is ready when one driver can open it.
 * - `gpu.name`, `gpu.memoryBytes`: first whoever knows the vendor's UUID, since it speaks through the vendor's own
 *   library; the bus knows neither marketing names nor how much memory there is.
 * - `verdict`: see `fuseVerdicts`.
 * - everything else, field by field: the most trusted that knows it.
 */
export function mergeSightings(sightings: readonly Sighting[]): Facts {
  const only = sightings[0]
  if (sightings.length === 1 && only !== undefined) return factsOfOne(only)
  const seen = sightings.map(({ observation }) => observation)
  const identity = firstOfEach<DeviceIdentity>(seen.map((one) => one.identity))
  const gpu = firstOfEach<GpuDescription>(seen.map((one) => one.gpu))
  const vendorFirst = seen.toSorted(
    (a, b) => Number(b.identity.uuid !== undefined) - Number(a.identity.uuid !== undefined),
  )
  const voices = firstOfEach<GpuDescription>(vendorFirst.map((one) => one.gpu))
  const { key: _key, verdict: _verdict, ...rest } = firstOfEach<DeviceObservation>(seen)
  return {
    ...rest,
    stage: stageOf(seen),
    identity,
    gpu: withVendor({ ...gpu, name: voices.name, memoryBytes: voices.memoryBytes }, identity),
    verdict: fuseVerdicts(seen.flatMap(({ verdict }) => (verdict === undefined ? [] : [verdict]))),
    sources: sightings.map(sourceOf),
  }
}

/** The common case, and the one that most events go through: nothing to weigh, so little is copied. */
function factsOfOne(sighting: Sighting): Facts {
  const { observation: seen } = sighting
  return {
    stage: seen.stage,
    identity: seen.identity,
    gpu: withVendor(seen.gpu, seen.identity),
    verdict: seen.verdict ?? fuseVerdicts([]),
    enclosureId: seen.enclosureId,
    thunderboltPort: seen.thunderboltPort,
    thunderboltSpeed: seen.thunderboltSpeed,
    link: seen.link,
    powerState: seen.powerState,
    hasDisplays: seen.hasDisplays,
    displayIds: seen.displayIds,
    kernelDriver: seen.kernelDriver,
    appleSilicon: seen.appleSilicon,
    sources: [sourceOf(sighting)],
  }
}

function stageOf(seen: readonly DeviceObservation[]): DeviceObservation['stage'] {
  for (const stage of ['wedged', 'lost', 'ready'] as const) if (seen.some((one) => one.stage === stage)) return stage
  return 'present'
}

function sourceOf(sighting: Sighting): DeviceSource {
  const { source, observation } = sighting
  return (sighting.shown ??= Object.freeze({
    driver: source.name,
    key: observation.key,
    identity: observation.identity,
  }))
}

function withVendor(gpu: GpuDescription, identity: DeviceIdentity): GpuDescription {
  if (gpu.vendor !== undefined) return gpu
  const vendor = vendorOfPciId(gpu.vendorId ?? identity.vendorId)
  return vendor === undefined ? gpu : { ...gpu, vendor }
}

function firstOfEach<T extends object>(parts: readonly T[]): T {
  const merged: Partial<T> = {}
  for (const part of parts) {
    for (const [field, value] of Object.entries(part) as [keyof T, T[keyof T]][]) merged[field] ??= value
  }
  return merged as T
}
