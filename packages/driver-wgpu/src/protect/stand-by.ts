import { retireDevice } from '../device/held-devices.ts'
import type { HeldDevice } from '../device/held-devices.ts'
import { laterQuietly } from '../device/timers.ts'
import type { Core } from './core.ts'
import type { Incarnation } from './incarnation.ts'
import type { Node } from './nodes/node.ts'
import { isPreparable } from './prepared.ts'
import type { Successor, SuccessorFinder } from './successor.ts'

/** When no device could be had, or the one that was there went, the next attempt is after this. */
const pauseMs = 30_000

/** Opening and closing devices holds up the event loop: an application that has just come back gets its results first. */
const courtesyMs = 250

/** Keeps a device open that takes over at once, with everything made on it that is slow to make. */
export class StandBy {
  readonly #core: Core
  readonly #finder: SuccessorFinder
  readonly #incarnate: (successor: Successor) => Incarnation
  #spare: Incarnation | undefined
  #isOpening = false
  #isEnded = false
  /** Objects that were made since the spare was last given some. */
  #lacking: Node[] = []

  constructor(core: Core, finder: SuccessorFinder, incarnate: (successor: Successor) => Incarnation) {
    this.#core = core
    this.#finder = finder
    this.#incarnate = incarnate
    core.onRegister = (node) => this.#consider(node)
    void core.ended.promise.then(() => this.#end())
  }

  /** Opens a device in the background, unless there is one; cleans up after the lost one first that was left for it. */
  renewSoon(lost?: HeldDevice): void {
    laterQuietly(courtesyMs, () => {
      if (lost !== undefined) void retireDevice(lost)
      void this.#renew()
    })
  }

  /** The device, for its new owner; `undefined` when there is none that lives. */
  take(): Incarnation | undefined {
    const spare = this.#spare
    this.#forget()
    if (spare === undefined || spare.held.isLost) return undefined
    this.#finder.take(spare.seen)
    return spare
  }

  /** Closes it: the device in use is about to be another one. */
  async drop(): Promise<void> {
    const spare = this.#spare
    this.#forget()
    spare?.stop()
    if (spare !== undefined) await retireDevice(spare.held)
  }

  async #renew(): Promise<void> {
    if (this.#spare !== undefined || this.#isOpening || this.#isEnded) return
    this.#isOpening = true
    const found = await this.#finder.findSpare().catch(() => undefined)
    this.#isOpening = false
    if (found === undefined) laterQuietly(pauseMs, () => void this.#renew())
    else if (this.#isEnded) await retireDevice(found.held)
    else await this.#keep(this.#incarnate(found))
  }

  async #keep(spare: Incarnation): Promise<void> {
    this.#spare = spare
    void spare.device.lost.then(() => {
      if (this.#spare !== spare) return
      void this.drop()
      laterQuietly(pauseMs, () => void this.#renew())
    })
    await spare.prepared.make(this.#core.registry.all())
    // The first work and the first mapping of a device take memory that is slow to come by.
    const isAlive = await spare.isAliveAfterWork().catch(() => false)
    if (isAlive && this.#spare === spare) this.#core.emit({ type: 'standing-by', adapter: spare.adapterName })
  }

  #consider(node: Node): void {
    if (this.#spare === undefined || !isPreparable(node)) return
    this.#lacking.push(node)
    if (this.#lacking.length > 1) return
    // Not now: the application is in the middle of something.
    laterQuietly(0, () => void this.#spare?.prepared.make(this.#lacking.splice(0)))
  }

  #forget(): void {
    this.#spare = undefined
    this.#lacking = []
  }

  #end(): void {
    this.#isEnded = true
    void this.drop()
  }
}
