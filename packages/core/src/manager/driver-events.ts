import type { DriverEvent, ResyncReason } from '../driver/events.ts'
import type { DriverSnapshot } from '../driver/observation.ts'
import type { Enclosure } from '../types/enclosure.ts'
import type { Finding } from '../types/finding.ts'
import type { DeviceTracker } from './device-tracker.ts'
import type { EnclosureTable } from './enclosure-table.ts'
import { equal } from './equal.ts'
import type { EventHub } from './event-hub.ts'
import type { Arrival } from './fusion/fuser.ts'
import type { Source } from './fusion/tracked-device.ts'
import { checkEnclosure, checkFinding, checkObservation, checkSnapshot } from './snapshot-check.ts'
import type { CheckedSnapshot, Violation } from './snapshot-check.ts'

/** Applies what drivers say to the manager's picture of the machine. */
export class DriverEvents {
  readonly #hub: EventHub
  readonly #devices: DeviceTracker
  readonly #enclosures: EnclosureTable
  readonly #findings = new Map<Source, readonly Finding[]>()
  /** Keys a driver used twice, so that each is reported once and not with every look. */
  readonly #repeated = new Map<string, ReadonlySet<string>>()

  constructor(hub: EventHub, devices: DeviceTracker, enclosures: EnclosureTable) {
    this.#hub = hub
    this.#devices = devices
    this.#enclosures = enclosures
  }

  /** Of all drivers, in the caller's order, about devices by their ids. */
  get findings(): readonly Finding[] {
    const bySource = [...this.#findings].sort(([a], [b]) => a.rank - b.rank)
    return Object.freeze(
      bySource.flatMap(([source, findings]) => findings.map((finding) => this.#byId(source, finding))),
    )
  }

  apply(source: Source, event: DriverEvent): Violation | undefined {
    switch (event.type) {
      case 'device-observed': {
        const { device } = event
        const known = this.#devices.sighting(source, device.key)
        const violation = checkObservation(device, known?.observation)
        if (violation === undefined) this.#devices.observeOne(source, device, known)
        return violation
      }
      case 'device-leaving':
        this.#devices.leave(source, event.key, event.reason)
        return this.#about(source, event)
      case 'device-lost':
        this.#devices.die(source, event.key, 'lost', event.reason)
        return this.#about(source, event)
      case 'device-wedged':
        this.#devices.die(source, event.key, 'wedged', event.reason)
        return this.#about(source, event)
      case 'device-removed':
        this.#devices.remove(source, event.key, event.graceful, 'it is off the bus')
        return this.#about(source, event)
      case 'health-sampled': {
        const sighting = this.#devices.sighting(source, event.key)
        if (sighting === undefined) return this.#about(source, event)
        this.#devices.sampled(sighting, event.sample)
        return undefined
      }
      case 'enclosure-observed': {
        const violation = checkEnclosure(event.enclosure)
        if (violation === undefined) this.#enclosureObserved(source, event.enclosure)
        return violation
      }
      case 'enclosure-removed':
        if (!this.#enclosures.sees(source.name, event.id)) {
          return `says that enclosure ${event.id} is gone, which it does not list`
        }
        this.#enclosureRemoved(source, event.id)
        return undefined
      case 'findings-observed':
        return this.#findingsAlone(source, event.findings)
      case 'resync': {
        const checked = checkSnapshot(event.snapshot)
        if (checked === undefined)
          return 'sent a resync without devices, enclosures and findings; what it said before is kept'
        return this.#resync(source, event.reason, checked)
      }
      default:
        return `sent an event of the unknown type ${JSON.stringify((event as { type: unknown }).type)}`
    }
  }

  /**
   * Takes the first look of several drivers at once, so that which of them answered first decides nothing. Returns the
   * violations of each.
   */
  begin(looks: readonly { readonly source: Source; readonly look: CheckedSnapshot }[]): Map<Source, Violation> {
    const violations = new Map<Source, Violation>()
    const arrivals: { source: Source; arrival: Arrival }[] = []
    for (const { source, look } of looks) {
      for (const enclosure of look.snapshot.enclosures) this.#enclosureObserved(source, enclosure)
      const { slots, violation = look.violation } = this.#slotsOf(source, look.snapshot)
      if (violation !== undefined) violations.set(source, violation)
      for (const arrival of slots) arrivals.push({ source, arrival })
    }
    this.#devices.observe(arrivals, true)
    for (const { source, look } of looks) this.#findingsObserved(source, look.snapshot.findings)
    return violations
  }

  /** Departures come first, boxes before what is in them. */
  #resync(source: Source, reason: ResyncReason, { snapshot, ...look }: CheckedSnapshot): Violation | undefined {
    const { slots, violation = look.violation } = this.#slotsOf(source, snapshot)
    const listed = new Set(slots.map(({ slot }) => slot))
    for (const slot of this.#devices.slots(source)) {
      if (!listed.has(slot)) this.#devices.remove(source, slot, false, `it was gone when ${source.name} looked again`)
    }
    const boxes = new Set(snapshot.enclosures.map(({ id }) => id))
    for (const id of this.#enclosures.seenBy(source.name)) if (!boxes.has(id)) this.#enclosureRemoved(source, id)
    for (const enclosure of snapshot.enclosures) this.#enclosureObserved(source, enclosure)
    this.#devices.observe(
      slots.map((arrival) => ({ source, arrival })),
      true,
    )
    this.#findingsObserved(source, snapshot.findings)
    this.#hub.emit({ type: 'resynced', driver: source.name, reason })
    return violation
  }

  /** Under which name each observation is kept: its key; for the second with that key something no key looks like. */
  #slotsOf(source: Source, { devices }: DriverSnapshot): { slots: Arrival[]; violation: Violation | undefined } {
    const counts = new Map<string, number>()
    const slots: Arrival[] = []
    let violation: Violation | undefined
    for (const observation of devices) {
      const count = (counts.get(observation.key) ?? 0) + 1
      counts.set(observation.key, count)
      slots.push({ slot: count === 1 ? observation.key : `${observation.key}\0${count}`, observation })
    }
    const repeated = new Set([...counts].filter(([, count]) => count > 1).map(([key]) => key))
    const known = this.#repeated.get(source.name) ?? new Set()
    const fresh = [...repeated].filter((key) => !known.has(key))
    this.#repeated.set(source.name, repeated)
    if (fresh.length > 0) {
      violation = `gave several devices the same key (${fresh.join(', ')}); all are kept, but events about that key go to the first`
    }
    return { slots, violation }
  }

  /** A departure that is told twice is no news. One of a device that was never there means that something was lost. */
  #about(source: Source, { type, key }: { readonly type: string; readonly key: string }): Violation | undefined {
    if (this.#devices.sighting(source, key) !== undefined || this.#devices.knewOnce(source, key)) return undefined
    return `sent ${type} about ${key}, which it never listed`
  }

  #enclosureObserved({ name }: Source, enclosure: Enclosure): void {
    const before = this.#enclosures.find(enclosure.id)
    const after = this.#enclosures.observe(name, enclosure)
    if (before !== undefined && equal(before, after)) return
    this.#devices.enclosureChanged(after.id)
    this.#hub.emit({ type: before === undefined ? 'enclosure-connected' : 'enclosure-changed', enclosure: after })
    if (before === undefined) this.#devices.enclosureBack(after.id)
  }

  #enclosureRemoved({ name }: Source, id: string): void {
    const gone = this.#enclosures.remove(name, id)
    if (gone === undefined) return
    this.#devices.enclosureGone(id)
    this.#hub.emit({ type: 'enclosure-disconnected', enclosure: gone })
  }

  /** Drivers name devices by their own keys. */
  #byId(source: Source, finding: Finding): Finding {
    if (finding.deviceId === undefined) return finding
    const id = this.#devices.sighting(source, finding.deviceId)?.device?.id
    return id === undefined ? finding : { ...finding, deviceId: id }
  }

  #findingsAlone(source: Source, findings: readonly Finding[]): Violation | undefined {
    const wrong = findings.map(checkFinding)
    this.#findingsObserved(
      source,
      findings.filter((_, index) => wrong[index] === undefined),
    )
    return wrong.find((violation) => violation !== undefined)
  }

  #findingsObserved(source: Source, findings: readonly Finding[]): void {
    const before = this.#findings.get(source) ?? []
    this.#findings.set(source, findings)
    if (!equal(before, findings)) this.#hub.emit({ type: 'findings-changed', findings: this.findings })
  }
}
