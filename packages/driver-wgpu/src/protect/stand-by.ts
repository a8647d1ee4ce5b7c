import { Heartbeat, heartbeatTimes } from '../device/heartbeat.ts'
import type { HeartbeatOptions } from '../device/heartbeat.ts'
import { retireDevice } from '../device/held-devices.ts'
import { laterQuietly } from '../device/timers.ts'
import type { Core } from './core.ts'
import type { Node } from './nodes/node.ts'
import { isPreparable } from './prepared.ts'
import type { Successor, SuccessorFinder } from './successor.ts'

/** When no device could be had, or the one that was there went, the next attempt is after this. */
const pauseMs = 30_000

/** Keeps a device open that takes over at once, with everything made on it that is slow to make. */
export class StandBy {
  readonly #core: Core
  readonly #finder: SuccessorFinder
  readonly #heartbeat: HeartbeatOptions
  #spare: Successor | undefined
  /** Ends the heartbeat of the spare. */
  #unwatch: (() => void) | undefined
  #isOpening = false
  #isEnded = false
  /** Objects that were made since the spare was last given some. */
  #lacking: Node[] = []

  constructor(core: Core, finder: SuccessorFinder, heartbeat: HeartbeatOptions) {
    this.#core = core
    this.#finder = finder
    // Nobody works with it, so it is asked as seldom as any idle device.
    this.#heartbeat = { ...heartbeat, intervalMs: heartbeatTimes(heartbeat).idleIntervalMs }
    core.onRegister = (node) => this.#consider(node)
    void core.ended.promise.then(() => this.#end())
  }

  /** Opens a device in the background, unless there is one. */
  renew(): void {
    if (this.#spare !== undefined || this.#isOpening || this.#isEnded) return
    this.#isOpening = true
    void this.#finder
      .findSpare()
      .catch(() => undefined)
      .then(async (spare) => {
        this.#isOpening = false
        if (spare === undefined) laterQuietly(pauseMs, () => this.renew())
        else if (this.#isEnded) await retireDevice(spare.held)
        else await this.#keep(spare)
      })
  }

  /** The device, for its new owner; `undefined` when there is none that lives. */
  take(): Successor | undefined {
    const spare = this.#spare
    this.#forget()
    if (spare === undefined || spare.held.isLost) return undefined
    this.#finder.take(spare)
    return spare
  }

  /** Closes it: the device in use is about to be another one. */
  async drop(): Promise<void> {
    const spare = this.#spare
    this.#forget()
    if (spare !== undefined) await retireDevice(spare.held)
  }

  async #keep(spare: Successor): Promise<void> {
    this.#spare = spare
    const { device } = spare.held
    const leave = (): void => {
      if (this.#spare !== spare) return
      void this.drop()
      laterQuietly(pauseMs, () => this.renew())
    }
    const heartbeat = new Heartbeat(device.queue, this.#heartbeat, leave)
    this.#unwatch = () => heartbeat.stop()
    void device.lost.then(leave)
    await spare.prepared.make(this.#core.registry.all())
    if (this.#spare === spare) this.#core.emit({ type: 'standing-by', adapter: spare.seen.name })
  }

  #consider(node: Node): void {
    if (this.#spare === undefined || !isPreparable(node)) return
    this.#lacking.push(node)
    if (this.#lacking.length > 1) return
    // Not now: the application is in the middle of something.
    laterQuietly(0, () => void this.#spare?.prepared.make(this.#lacking.splice(0)))
  }

  #forget(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
    this.#spare = undefined
    this.#lacking = []
  }

  #end(): void {
    this.#isEnded = true
    void this.drop()
  }
}
