import type { DeviceObservation } from '../../driver/observation.ts'
import type { HealthTracker } from '../../registry/health-tracker.ts'
import type { RegistryEntry } from '../../registry/registry.ts'
import type { GpuDeviceState } from '../../registry/states.ts'
import type { DeviceSource, EGpuDevice } from '../../types/device.ts'
import type { Traits } from './identity.ts'
import type { Facts } from './merge.ts'

/** A driver, as far as fusion cares. */
export interface Source {
  readonly name: string
  /** Its place in the caller's order: lower is trusted more among equals. */
  readonly rank: number
  /**
   * It knows the bus: it gives verdicts. When such a driver sees a device, only such drivers decide whether it is
   * there; a graphics API that still lists it is late.
   */
  readonly authority: boolean
}

/** One driver's current view of one device. */
export interface Sighting {
  readonly source: Source
  /** The driver's key; where it used one key twice, the second's has a NUL and a number behind it. */
  readonly slot: string
  observation: DeviceObservation
  traits: Traits
  /** What `device.sources` shows of it, kept while its identity says the same. */
  shown: DeviceSource | undefined
  /** The device it belongs to; `undefined` while it is an echo. */
  device: TrackedDevice | undefined
  /** The device that has left while this driver still lists it. */
  echoOf: TrackedDevice | undefined
}

/** One physical GPU: what the drivers say about it, and how far its story has been told. */
export class TrackedDevice {
  /** Given once all that arrived together has been joined, and then for good. */
  id: string = ''
  /** The most trusted first. */
  readonly sightings: Sighting[] = []
  /** What other drivers still list after it left. */
  readonly echoes: Set<Sighting> = new Set()
  /** What it could be recognised by when it left. */
  remembered: readonly { readonly driver: string; readonly traits: Traits }[] = []
  /** The keys it waits under to be recognised. */
  departedUnder: readonly string[] = []
  present: boolean = false
  /** As last told to the application. */
  facts: Facts | undefined
  snapshot: EGpuDevice | undefined
  /** Where it is in the registry, kept here because every event asks. */
  state: GpuDeviceState | undefined
  epoch: number = 0
  health: HealthTracker | undefined
  toldReady: boolean = false
  toldExternal: boolean = false
  /** Which drivers called it dead, by name. One that no longer lists it may still have been the only one to notice. */
  deaths: Map<string, 'lost' | 'wedged'> | undefined
  /** Who said that it goes: a driver, its enclosure, a safe disconnect. */
  leavingBy: string | undefined
  /** A safe disconnect has begun: nobody may open it any more. */
  ejecting: boolean = false
  /** Its driver takes it off the bus at our request: should it go now, that is graceful. */
  removing: boolean = false
  /** Since when it cannot be used, if it was lost or removed. */
  awaySinceMs: number | undefined
  openTargets: number = 0
  migrations: number = 0

  /** Keeps the order of trust: drivers that know the bus first, then as the caller ordered them. */
  add(sighting: Sighting): void {
    sighting.device = this
    const { authority, rank } = sighting.source
    const after = this.sightings.findIndex(({ source }) =>
      source.authority === authority ? source.rank > rank : authority,
    )
    if (after === -1) this.sightings.push(sighting)
    else this.sightings.splice(after, 0, sighting)
  }

  drop(sighting: Sighting): void {
    sighting.device = undefined
    const index = this.sightings.indexOf(sighting)
    if (index !== -1) this.sightings.splice(index, 1)
  }

  /** It took a step in the registry. */
  entered({ state, epoch }: RegistryEntry): void {
    this.state = state
    this.epoch = epoch
  }

  /** This driver shows it alive, so what it said of its death no longer holds. */
  revive(driver: string): void {
    if (this.deaths?.delete(driver) === true && this.deaths.size === 0) this.deaths = undefined
  }

  seenBy(driver: string): Sighting | undefined {
    return this.sightings.find(({ source }) => source.name === driver)
  }
}
