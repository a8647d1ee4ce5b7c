import { boxOf } from './device-id.ts'
import { conflict } from './identity.ts'
import type { Traits } from './identity.ts'
import type { Sighting, TrackedDevice } from './tracked-device.ts'

/**
 * Beyond so many look-alikes of one driver, weak evidence cannot point at one of them, and looking at each would make
 * an event cost as much as the machine is large.
 */
const lookAlikes = 16

/** Finds the devices that an observation could belong to, without looking at all of them. */
export class SightingIndex {
  /** Each of these names one device by itself. */
  readonly #strong = new Map<string, Set<Sighting>>()
  /** Each of these names a kind of device, so what counts is how many of a kind each driver sees. */
  readonly #weak = new Map<string, Map<string, Set<Sighting>>>()

  add(sighting: Sighting): void {
    for (const key of strongKeys(sighting.traits)) entry(this.#strong, key, () => new Set<Sighting>()).add(sighting)
    for (const key of weakKeys(sighting.traits)) {
      const perDriver = entry(this.#weak, key, () => new Map<string, Set<Sighting>>())
      entry(perDriver, sighting.source.name, () => new Set<Sighting>()).add(sighting)
    }
  }

  delete(sighting: Sighting): void {
    for (const key of strongKeys(sighting.traits)) {
      const sightings = this.#strong.get(key)
      sightings?.delete(sighting)
      if (sightings?.size === 0) this.#strong.delete(key)
    }
    for (const key of weakKeys(sighting.traits)) {
      const perDriver = this.#weak.get(key)
      const sightings = perDriver?.get(sighting.source.name)
      sightings?.delete(sighting)
      if (sightings?.size === 0) perDriver?.delete(sighting.source.name)
      if (perDriver?.size === 0) this.#weak.delete(key)
    }
  }

  /** Devices that are the same by their UUID, their address at this moment, or their serial; the strongest first. */
  strongMatches(sighting: Sighting): TrackedDevice[] {
    const devices = new Set<TrackedDevice>()
    for (const key of strongKeys(sighting.traits)) {
      for (const { device } of this.#strong.get(key) ?? []) {
        if (device !== undefined && device !== sighting.device && fits(device, sighting)) devices.add(device)
      }
    }
    return [...devices]
  }

  /** The one device of the same board, name or maker, if there is no other it could be, nor another that could be it. */
  weakMatch(sighting: Sighting): TrackedDevice | undefined {
    for (const key of weakKeys(sighting.traits)) {
      const perDriver = this.#weak.get(key)
      if (perDriver === undefined || perDriver.size < 2) continue
      const device = soleCandidate(perDriver, sighting)
      if (device !== undefined) return device
    }
    return undefined
  }
}

function soleCandidate(
  perDriver: ReadonlyMap<string, ReadonlySet<Sighting>>,
  sighting: Sighting,
): TrackedDevice | undefined {
  let candidate: TrackedDevice | undefined
  for (const [driver, sightings] of perDriver) {
    if (driver === sighting.source.name) continue
    if (sightings.size > lookAlikes) return undefined
    for (const { device } of sightings) {
      if (device === undefined || device === candidate || contradicts(device, sighting)) continue
      if (candidate !== undefined) return undefined
      candidate = device
    }
  }
  if (candidate === undefined || !fits(candidate, sighting)) return undefined
  const own = perDriver.get(sighting.source.name) ?? new Set()
  if (own.size > lookAlikes) return undefined
  for (const rival of own) if (rival !== sighting && !contradicts(candidate, rival)) return undefined
  return candidate
}

/** A driver gives each device its own key, so two of its keys are never one device. */
export function fits(device: TrackedDevice, sighting: Sighting): boolean {
  return device.seenBy(sighting.source.name) === undefined && !contradicts(device, sighting)
}

function contradicts(device: TrackedDevice, sighting: Sighting): boolean {
  return device.sightings.some(({ traits }) => conflict(traits, sighting.traits, 'same-moment'))
}

function strongKeys(traits: Traits): string[] {
  const keys: string[] = []
  if (traits.uuid !== undefined) keys.push(`uuid/${traits.uuid}`)
  if (traits.pciAddress !== undefined) keys.push(`pci/${traits.pciAddress}`)
  if (traits.registryEntryId !== undefined) keys.push(`entry/${traits.registryEntryId}`)
  if (traits.serial !== undefined) keys.push(`serial/${traits.serial}`)
  return keys
}

function weakKeys(traits: Traits): string[] {
  const keys: string[] = []
  if (traits.ids.board !== undefined) keys.push(`board/${traits.ids.board}`)
  if (traits.name !== undefined) keys.push(`name/${traits.name}`)
  if (traits.maker !== undefined) keys.push(`maker/${traits.maker}`)
  return keys
}

/** What a device that left is found again by. The first two are its own; so is its place in a box, for one model. */
export function returnKeys(traits: Traits): string[] {
  const keys: string[] = []
  if (traits.uuid !== undefined) keys.push(`uuid/${traits.uuid}`)
  if (traits.serial !== undefined) keys.push(`serial/${traits.serial}`)
  const box = boxOf(traits)
  const card = traits.ids.board ?? traits.ids.model
  if (box !== undefined && card !== undefined) keys.push(`box/${box}/${card}`)
  return keys
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
}
