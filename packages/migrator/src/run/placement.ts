import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Clock, ComputeTarget, OpenTarget, TargetLoss } from '@egpu/core'
import { withDeadline } from '../deadline.ts'
import { messageOf } from '../failure.ts'

/**
 * One stay of a workload on one open target. Its signal fires when the stay is over, however that came about, so every
 * call made for the sake of this stay is abandoned with it and a late answer changes nothing.
 */
export class Placement {
  readonly open: OpenTarget
  readonly target: ComputeTarget
  readonly #controller = new AbortController()
  readonly #giveBack: () => void
  readonly #onLoss: () => void
  readonly #clock: Clock
  #loss: TargetLoss | undefined
  #lostAt: number | undefined
  #ended = false

  constructor(open: OpenTarget, clock: Clock, giveBack: () => void, onLoss: () => void) {
    this.open = open
    this.#clock = clock
    this.target = open.target
    this.#giveBack = giveBack
    this.#onLoss = onLoss
    open.lost.then(
      (loss) => this.lose(loss),
      (error: unknown) =>
        this.lose({
          reason: 'unknown',
          message: `its loss could not be watched: ${messageOf(error)}`,
          atMs: clock.now(),
        }),
    )
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** How the target was lost; `undefined` while it is fine, and when the stay ended in peace. */
  get loss(): TargetLoss | undefined {
    return this.#loss
  }

  /** When the first sign of the loss came, on our clock. */
  get lostAt(): number | undefined {
    return this.#lostAt
  }

  /** The first sign counts, a later one only if it knows why; after the end nothing does. */
  lose(loss: TargetLoss): void {
    if (this.#ended) return
    if (this.#loss !== undefined) {
      if (this.#loss.reason === 'unknown') this.#loss = { ...this.#loss, reason: loss.reason }
      return
    }
    this.#loss = loss
    this.#lostAt = this.#clock.now()
    this.#controller.abort(
      new EGpuError(EGpuErrorCode.DeviceLost, `${this.target.name} was lost (${loss.reason}): ${loss.message}`, {
        deviceId: this.target.deviceId,
      }),
    )
    this.#onLoss()
  }

  /** Ends the stay: abandons what runs on it, closes the target without waiting for it longer than `ms`. */
  async end(ms: number): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#giveBack()
    this.#controller.abort(new EGpuError(EGpuErrorCode.Closed, `the stay on ${this.target.name} is over`))
    await withDeadline(() => this.open.close(), {
      clock: this.#clock,
      ms,
      what: `closing ${this.target.name}`,
    }).catch(() => undefined)
  }
}
