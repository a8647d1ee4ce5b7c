import type { DeviceObservation } from '../../driver/observation.ts'
import type { DeviceIdentity, GpuDescription } from '../../types/device.ts'
import { idBasis, idText } from './device-id.ts'
import { conflict, swapped, traitsOf } from './identity.ts'
import type { Traits } from './identity.ts'
import { SightingIndex, fits, returnKeys } from './sighting-index.ts'
import { TrackedDevice } from './tracked-device.ts'
import type { Sighting, Source } from './tracked-device.ts'

/** One observation under the name it is kept by. */
export interface Arrival {
  readonly slot: string
  readonly observation: DeviceObservation
}

/**
 * Joins what several drivers see into devices, one event at a time and without looking at every device. It knows who
 * is who; what that means for the application is the tracker's business. `docs/decisions/0011-fusion.md` has the rules.
 */
export class Fuser {
  readonly #index = new SightingIndex()
  readonly #sightings = new Map<string, Map<string, Sighting>>()
  readonly #present = new Set<TrackedDevice>()
  readonly #departed = new Map<string, Set<TrackedDevice>>()
  readonly #formerSlots = new Set<string>()
  readonly #devicesById = new Map<string, TrackedDevice>()
  readonly #onAbsorbed: (gone: TrackedDevice, into: TrackedDevice) => void

  /** `onAbsorbed` hears when new evidence shows that two devices have been one all along. */
  constructor(onAbsorbed: (gone: TrackedDevice, into: TrackedDevice) => void) {
    this.#onAbsorbed = onAbsorbed
  }

  get present(): ReadonlySet<TrackedDevice> {
    return this.#present
  }

  /** Also a device that has left, and, under its former id, one that was absorbed. */
  byId(id: string): TrackedDevice | undefined {
    return this.#devicesById.get(id)
  }

  sighting(driver: string, slot: string): Sighting | undefined {
    return this.#sightings.get(driver)?.get(slot)
  }

  slots(driver: string): readonly string[] {
    return [...(this.#sightings.get(driver)?.keys() ?? [])]
  }

  /** Whether this driver ever listed it and it has left since. */
  knewOnce(driver: string, slot: string): boolean {
    return this.#formerSlots.has(ownKey(driver, slot))
  }

  /** Whether the key now names another card, or the same one re-plugged: the old one has to be forgotten first. */
  isSwap(driver: string, { slot, observation }: Arrival): boolean {
    const known = this.sighting(driver, slot)
    if (known === undefined || sameIdentity(known.observation, observation)) return false
    return swapped(known.traits, traitsOf(observation))
  }

  /** The device, if the observation is about one that is here and does not change who it is; else nothing is done. */
  update(known: Sighting, observation: DeviceObservation): TrackedDevice | undefined {
    if (known.device === undefined || !sameIdentity(known.observation, observation)) return undefined
    known.observation = observation
    return known.device
  }

  /** What arrived together is judged together, so that the order within a list decides nothing. */
  observe(arrivals: readonly { readonly source: Source; readonly arrival: Arrival }[]): TrackedDevice[] {
    const touched = new Set<TrackedDevice>()
    const unplaced: Sighting[] = []
    for (const { source, arrival } of arrivals) {
      const known = this.sighting(source.name, arrival.slot)
      if (known === undefined) unplaced.push(this.#keep(source, arrival))
      else if (this.#update(known, arrival.observation)) {
        if (known.device !== undefined) touched.add(known.device)
      } else unplaced.push(known)
    }
    unplaced.sort(byTrustThenSlot)
    for (const sighting of unplaced) this.#place(sighting, touched)
    for (const device of touched) if (device.present && device.id === '') this.#name(device)
    return [...touched].filter((device) => device.present)
  }

  /** Forgets one driver's view. The device it belonged to is gone exactly when `present` turned false. */
  forget(sighting: Sighting): TrackedDevice | undefined {
    const { source, slot, device } = sighting
    this.#sightings.get(source.name)?.delete(slot)
    this.#formerSlots.add(ownKey(source.name, slot))
    sighting.echoOf?.echoes.delete(sighting)
    if (device === undefined) return undefined
    const remembered = device.sightings.map((one) => ({ driver: one.source.name, traits: one.traits }))
    const keys = device.sightings.map((one) => ownKey(one.source.name, one.slot))
    this.#index.delete(sighting)
    device.drop(sighting)
    const remaining = device.sightings
    const stays = remaining.length > 0 && (!source.authority || remaining.some((one) => one.source.authority))
    if (!stays) this.#depart(device, remembered, keys)
    return device
  }

  #keep(source: Source, { slot, observation }: Arrival): Sighting {
    const sighting: Sighting = {
      source,
      slot,
      observation,
      traits: traitsOf(observation),
      shown: undefined,
      device: undefined,
      echoOf: undefined,
    }
    let slots = this.#sightings.get(source.name)
    if (slots === undefined) this.#sightings.set(source.name, (slots = new Map()))
    slots.set(slot, sighting)
    this.#index.add(sighting)
    return sighting
  }

  /** True when that was all; false when it has to be placed (again). */
  #update(known: Sighting, observation: DeviceObservation): boolean {
    const same = sameIdentity(known.observation, observation)
    known.observation = observation
    // An echo says nothing new as long as it says the same.
    if (same) return true
    if (known.echoOf === undefined) this.#index.delete(known)
    known.traits = traitsOf(observation)
    known.shown = undefined
    known.echoOf?.echoes.delete(known)
    known.echoOf = undefined
    this.#index.add(known)
    return false
  }

  #place(sighting: Sighting, touched: Set<TrackedDevice>): void {
    const current = sighting.device
    if (current !== undefined) {
      touched.add(current)
      current.drop(sighting)
      // Where the bus contradicts the others, they were wrong about which device they saw.
      if (sighting.source.authority && !fits(current, sighting)) {
        for (const other of current.sightings.filter(({ source }) => !source.authority)) {
          current.drop(other)
          touched.add(this.#admit(new TrackedDevice(), other))
        }
      }
      if (current.sightings.length === 0 || fits(current, sighting)) {
        current.add(sighting)
        touched.add(this.#absorbMatches(current, sighting))
        return
      }
    }
    const [strong] = this.#index.strongMatches(sighting)
    const device =
      strong ?? this.#returning(sighting) ?? this.#index.weakMatch(sighting) ?? this.#lookAlikeThatLeft(sighting)
    if (device?.present !== true) {
      touched.add(this.#admit(device ?? new TrackedDevice(), sighting))
      return
    }
    device.add(sighting)
    touched.add(this.#absorbMatches(device, sighting))
  }

  #admit(device: TrackedDevice, sighting: Sighting): TrackedDevice {
    for (const key of device.departedUnder) this.#unlist(key, device)
    device.present = true
    this.#present.add(device)
    device.add(sighting)
    for (const echo of device.echoes) {
      if (!fits(device, echo)) continue
      device.echoes.delete(echo)
      echo.echoOf = undefined
      this.#index.add(echo)
      device.add(echo)
    }
    return device
  }

  /** New evidence may show that other devices are this one. */
  #absorbMatches(device: TrackedDevice, sighting: Sighting): TrackedDevice {
    let survivor = device
    for (const match of this.#index.strongMatches(sighting)) {
      if (match === survivor || !match.sightings.every((one) => fits(survivor, one))) continue
      // The one that is known to the bus, or was named first, keeps its id.
      const [into, gone] =
        survivor.id === '' || (knowsBus(match) && !knowsBus(survivor)) ? [match, survivor] : [survivor, match]
      for (const one of gone.sightings.splice(0)) into.add(one)
      gone.present = false
      this.#present.delete(gone)
      if (gone.id !== '') {
        this.#devicesById.set(gone.id, into)
        this.#onAbsorbed(gone, into)
      }
      survivor = into
    }
    return survivor
  }

  #depart(device: TrackedDevice, remembered: TrackedDevice['remembered'], ownKeys: readonly string[]): void {
    for (const echo of device.sightings.splice(0)) {
      this.#index.delete(echo)
      echo.device = undefined
      echo.echoOf = device
      device.echoes.add(echo)
    }
    device.present = false
    device.remembered = remembered
    this.#present.delete(device)
    const traits = remembered.map((one) => one.traits)
    device.departedUnder = [...traits.flatMap(returnKeys), ...ownKeys, ...traits.flatMap(cardKeys)]
    for (const key of device.departedUnder) {
      let devices = this.#departed.get(key)
      if (devices === undefined) this.#departed.set(key, (devices = new Set()))
      devices.add(device)
    }
  }

  /** The device that left and is back: by what is its own, else by the driver's key for it. */
  #returning(sighting: Sighting): TrackedDevice | undefined {
    for (const key of [...returnKeys(sighting.traits), ownKey(sighting.source.name, sighting.slot)]) {
      const device = this.#departedUnder(key, sighting)
      if (device !== undefined) return device
    }
    return undefined
  }

  /** Nothing tells two such cards apart, so any of them that left may be the one that came: the lowest id. */
  #lookAlikeThatLeft(sighting: Sighting): TrackedDevice | undefined {
    if (returnKeys(sighting.traits).length > 0) return undefined
    const [key] = cardKeys(sighting.traits)
    return key === undefined ? undefined : this.#departedUnder(key, sighting)
  }

  #departedUnder(key: string, sighting: Sighting): TrackedDevice | undefined {
    let found: TrackedDevice | undefined
    for (const device of this.#departed.get(key) ?? []) {
      if (device.present || !mayBe(device, sighting)) continue
      if (found === undefined || device.id < found.id) found = device
    }
    return found
  }

  #unlist(key: string, device: TrackedDevice): void {
    const devices = this.#departed.get(key)
    devices?.delete(device)
    if (devices?.size === 0) this.#departed.delete(key)
  }

  #name(device: TrackedDevice): void {
    const traits = device.sightings.map((sighting) => sighting.traits)
    const text = idText(idBasis(traits), traits)
    let id = text
    for (let ordinal = 2; this.#devicesById.has(id); ordinal += 1) id = `${text}-${ordinal}`
    device.id = id
    this.#devicesById.set(id, device)
  }
}

const ownKey = (driver: string, slot: string): string => `own/${driver}/${slot}`

function cardKeys({ ids, uuid, serial, name }: Traits): string[] {
  if (uuid !== undefined || serial !== undefined) return []
  const card = ids.board ?? ids.model ?? name
  return card === undefined ? [] : [`card/${card}`]
}

/** Two serials tell two cards apart only where one driver read both. */
function mayBe(device: TrackedDevice, { source, traits }: Sighting): boolean {
  return device.remembered.every(
    (then) =>
      !conflict(then.traits, traits, 'another-moment') &&
      (then.driver !== source.name || (then.traits.serial ?? traits.serial) === (traits.serial ?? then.traits.serial)),
  )
}

const knowsBus = (device: TrackedDevice): boolean => device.sightings.some(({ source }) => source.authority)

function byTrustThenSlot(a: Sighting, b: Sighting): number {
  if (a.source.authority !== b.source.authority) return a.source.authority ? -1 : 1
  if (a.source.rank !== b.source.rank) return a.source.rank - b.source.rank
  return a.slot < b.slot ? -1 : 1
}

/** Whether nothing changed that decides who it is. Most events are about something else, so this comes first. */
function sameIdentity(a: DeviceObservation, b: DeviceObservation): boolean {
  return (
    (a.identity === b.identity || sameIdentityFields(a.identity, b.identity)) &&
    (a.gpu === b.gpu || sameGpuFields(a.gpu, b.gpu))
  )
}

function sameIdentityFields(a: DeviceIdentity, b: DeviceIdentity): boolean {
  return (
    a.pciAddress === b.pciAddress &&
    a.uuid === b.uuid &&
    a.serial === b.serial &&
    a.registryEntryId === b.registryEntryId &&
    a.vendorId === b.vendorId &&
    a.deviceId === b.deviceId &&
    a.subsystemVendorId === b.subsystemVendorId &&
    a.subsystemDeviceId === b.subsystemDeviceId &&
    a.enclosureUid === b.enclosureUid &&
    a.enclosureSlot === b.enclosureSlot &&
    a.adapterName === b.adapterName
  )
}

function sameGpuFields(a: GpuDescription, b: GpuDescription): boolean {
  return (
    a.name === b.name &&
    a.vendor === b.vendor &&
    a.vendorId === b.vendorId &&
    a.deviceId === b.deviceId &&
    a.subsystemVendorId === b.subsystemVendorId &&
    a.subsystemDeviceId === b.subsystemDeviceId
  )
}
