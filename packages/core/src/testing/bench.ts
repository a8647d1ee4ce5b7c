import assert from 'node:assert/strict'
import type { EGpuDriver } from '../driver/driver.ts'
import type { DriverEvent } from '../driver/events.ts'
import type { DeviceObservation } from '../driver/observation.ts'
import type { HandName, Hands, Rig } from './rig.ts'
import { EventReader } from './event-reader.ts'
import { within } from './within.ts'

/** Thrown by a rule that cannot be checked here; the test is then skipped with this reason. */
export class Skip extends Error {}

/** What a rule works with: the rig, and ways to wait that end. */
export class Bench implements AsyncDisposable {
  readonly rig: Rig
  readonly patienceMs: number
  readonly #ends: AbortController[] = []

  constructor(rig: Rig, patienceMs: number) {
    this.rig = rig
    this.patienceMs = patienceMs
  }

  get driver(): EGpuDriver {
    return this.rig.driver
  }

  /** The hand, or the test is skipped. */
  hand<K extends HandName>(name: K): NonNullable<Hands[K]> {
    const hand = this.rig.hands?.[name]
    if (hand === undefined) throw new Skip(`the rig has no hand to ${name}`)
    return hand.bind(this.rig.hands) as NonNullable<Hands[K]>
  }

  /** A capability's methods, or the test is skipped. */
  capability<K extends 'health' | 'safeRemoval' | 'passthrough' | 'runtime'>(name: K): NonNullable<EGpuDriver[K]> {
    const methods = this.driver[name]
    if (methods === undefined) throw new Skip(`${this.driver.name} has no ${name}`)
    return methods
  }

  /** The device the hands touch, or the test is skipped. */
  async subject(): Promise<DeviceObservation> {
    const { devices } = await this.soon('list()', this.driver.list())
    if (this.rig.subject !== undefined) {
      const found = devices.find((device) => device.key === this.rig.subject)
      assert(found, `the rig's device ${this.rig.subject} is not listed`)
      return found
    }
    const subject = devices.find((device) => device.verdict?.conclusion === 'external') ?? devices[0]
    if (subject === undefined) throw new Skip('the machine has no GPU')
    return subject
  }

  /** Settles like `work`; fails when that takes longer than the suite is patient. */
  soon<T>(what: string, work: Promise<T>): Promise<T> {
    return within(this.patienceMs, what, work)
  }

  /** Starts to watch; ends with the rule at the latest. */
  watch(): { readonly events: EventReader; readonly abort: (reason?: unknown) => void } {
    const end = new AbortController()
    this.#ends.push(end)
    const source: AsyncIterable<DriverEvent> = this.driver.watch({ signal: end.signal })
    return { events: new EventReader(source, this.patienceMs), abort: (reason) => end.abort(reason) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends) end.abort()
    await this.soon('disposing of the rig', Promise.resolve(this.rig[Symbol.asyncDispose]()))
  }
}
