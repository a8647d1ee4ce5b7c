import { isDeepStrictEqual } from 'node:util'
import type { DriverEvent } from '@egpu/core/driver'
import type { Detection } from './detect/detect.ts'

/**
 * Knows what was told last, and turns departures and new looks into events. Entry ids tell incarnations apart: the
 * kernel never uses one twice, so a device that came back within one period is still seen to have gone.
 */
export class Tracker {
  #told: Detection
  readonly #leaving = new Set<string>()

  constructor(told: Detection) {
    this.#told = told
  }

  /** Starts over from a look at everything that was told as such. */
  reset(detection: Detection): void {
    this.#told = detection
    this.#leaving.clear()
  }

  /** Events for entries that have gone. Only their ids count: the entries cannot be asked any more. */
  departures(removed: readonly bigint[]): readonly DriverEvent[] {
    const gone = new Set(removed)
    const devices = new Map(this.#told.devices)
    const enclosures = new Map(this.#told.enclosures)
    const leaving: DriverEvent[] = []
    const left: DriverEvent[] = []
    for (const [key, { entryId, inFront }] of this.#told.devices) {
      if (gone.has(entryId)) {
        devices.delete(key)
        this.#leaving.delete(key)
        left.push({ type: 'device-removed', key, graceful: false })
      } else if (!this.#leaving.has(key) && [...inFront].some((id) => gone.has(id))) {
        this.#leaving.add(key)
        leaving.push({ type: 'device-leaving', key, reason: 'what it hangs on left the registry: its cable is out' })
      }
    }
    for (const [id, entryId] of this.#told.enclosures) {
      if (!gone.has(entryId)) continue
      enclosures.delete(id)
      left.push({ type: 'enclosure-removed', id })
    }
    this.#told = { ...this.#told, devices, enclosures }
    return [...leaving, ...left]
  }

  /** Events for what a new look found otherwise than it was told. */
  differences(now: Detection): readonly DriverEvent[] {
    const before = this.#told
    const events: DriverEvent[] = []
    for (const [key, { entryId }] of before.devices) {
      if (now.devices.get(key)?.entryId === entryId) continue
      this.#leaving.delete(key)
      events.push({ type: 'device-removed', key, graceful: false })
    }
    for (const [id, entryId] of before.enclosures) {
      if (now.enclosures.get(id) !== entryId) events.push({ type: 'enclosure-removed', id })
    }
    for (const enclosure of now.snapshot.enclosures) {
      const known = before.enclosures.get(enclosure.id) === now.enclosures.get(enclosure.id)
      const told = before.snapshot.enclosures.find((one) => one.id === enclosure.id)
      if (!known || !isDeepStrictEqual(told, enclosure)) events.push({ type: 'enclosure-observed', enclosure })
    }
    for (const device of now.snapshot.devices) {
      const known = before.devices.get(device.key)?.entryId === now.devices.get(device.key)?.entryId
      const told = known ? before.snapshot.devices.find((one) => one.key === device.key) : undefined
      if (isDeepStrictEqual(told, device)) continue
      events.push({ type: 'device-observed', device })
      if (device.stage === 'wedged' && told?.stage !== 'wedged') {
        events.push({ type: 'device-wedged', key: device.key, reason: 'it did not answer when the Mac woke up' })
      }
    }
    const { findings } = now.snapshot
    if (!isDeepStrictEqual(before.snapshot.findings, findings)) events.push({ type: 'findings-observed', findings })
    this.#told = now
    return events
  }
}
