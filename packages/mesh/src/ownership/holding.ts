import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions, Clock } from '@egpu/core'
import { within } from '../deadline.ts'
import type { Coordinator, Ownership, Tenure } from './coordinator.ts'
import { sleepMeter, type SleepMeter } from './host-sleep.ts'

/** Of what is left of a lease, the part after which it is renewed: two more attempts fit in. */
const renewAfter = 1 / 3

/** Before a renewal that failed is tried again, as a part of the lease. */
const retryAfter = 1 / 20

/**
 * An ownership that is kept up, and the one place to ask whether it still is. `signal` fires before the lease ends; since a
 * timer fires late in a process that was stopped or on a host that was asleep, `assertHeld` looks at the clock each time.
 */
export class Holding implements AsyncDisposable {
  readonly #coordinator: Coordinator
  readonly #clock: Clock
  readonly #newMeter: () => SleepMeter
  readonly #over = new AbortController()
  readonly #renewing: Promise<void>
  #tenure: Tenure
  /** Since before the tenure was asked for, or as good as. */
  #meter: SleepMeter
  #lastFailure: unknown

  /** `newMeter` is a parameter for tests. */
  constructor(
    coordinator: Coordinator,
    tenure: Tenure,
    clock: Clock,
    newMeter: () => SleepMeter = () => sleepMeter(clock),
  ) {
    this.#coordinator = coordinator
    this.#clock = clock
    this.#newMeter = newMeter
    this.#meter = newMeter()
    this.#tenure = tenure
    this.#renewing = this.#keep()
  }

  get tenure(): Tenure {
    return this.#tenure
  }

  /** Fires, with an `EGPU_STALE_EPOCH` or `EGPU_CLOSED`, once this host must not act as the owner any more. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  get isHeld(): boolean {
    return !this.#over.signal.aborted && this.#leftMs > 0
  }

  /** Throws `EGPU_STALE_EPOCH` unless this host owns the resource at this moment. */
  assertHeld(): void {
    if (this.isHeld) return
    this.#end(this.#ranOut())
    throw staleError(this.#tenure, this.#over.signal.reason)
  }

  /** Gives it to another host: this one stops being the owner before the word goes out. */
  async handOver(to: string, options: AbortOptions = {}): Promise<Ownership> {
    this.assertHeld()
    this.#end(new EGpuError(EGpuErrorCode.StaleEpoch, `${this.#tenure.resource} was handed over to ${to}`))
    await this.#renewing
    return this.#coordinator.transfer(this.#tenure, to, options)
  }

  /** Gives it up. Calling it twice is fine. */
  async release(options: AbortOptions = {}): Promise<void> {
    if (this.#over.signal.aborted) return
    this.#end(new EGpuError(EGpuErrorCode.Closed, `${this.#tenure.resource} was given up`))
    await this.#renewing
    await this.#coordinator.revoke(this.#tenure, options)
  }

  /** Like `release`, but does not reject: the lease runs out by itself. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined)
  }

  async #keep(): Promise<void> {
    const { signal } = this.#over
    const { promotion } = this.#coordinator
    const leaseMs = promotion.automatic ? promotion.leaseMs : Infinity
    const ending = Promise.all([this.#watchEnd(), this.#watchOthers()])
    let waitMs = leaseMs * renewAfter
    while (!signal.aborted) {
      try {
        await this.#clock.sleep(waitMs, { signal })
        const until = within(attemptMs(leaseMs), signal)
        const meter = this.#newMeter()
        const next = await this.#coordinator.renew(this.#tenure, { signal: until })
        // Sent before the lease ended and answered after it: somebody else may have looked in between.
        if (this.#leftMs > 0) {
          this.#tenure = next
          this.#meter = meter
        }
        this.#lastFailure = undefined
        waitMs = leaseMs * renewAfter
      } catch (error) {
        this.#lastFailure = error
        if (EGpuError.is(error, EGpuErrorCode.StaleEpoch)) this.#end(error)
        waitMs = leaseMs * retryAfter
      }
    }
    await ending
  }

  /** Stops in time whatever becomes of the renewals. */
  async #watchEnd(): Promise<void> {
    const { signal } = this.#over
    while (!signal.aborted) {
      const leftMs = this.#leftMs
      if (leftMs <= 0) this.#end(this.#ranOut())
      else await this.#clock.sleep(leftMs, { signal }).catch(() => undefined)
    }
  }

  /** Hears of somebody else's token before its own renewal fails, or where nothing is renewed. */
  async #watchOthers(): Promise<void> {
    const { resource, token } = this.#tenure
    for await (const state of this.#coordinator.watch(resource, { signal: this.#over.signal })) {
      if (state.kind === 'free' || state.ownership.token === token) continue
      const { owner } = state.ownership
      this.#end(
        new EGpuError(EGpuErrorCode.StaleEpoch, `${owner} owns ${resource} now (token ${state.ownership.token})`),
      )
    }
  }

  get #leftMs(): number {
    const { validUntilMs } = this.#tenure
    return validUntilMs === Infinity ? Infinity : validUntilMs - this.#clock.now() - this.#meter.sleptMs()
  }

  #ranOut(): EGpuError {
    const sleptMs = Math.round(this.#meter.sleptMs())
    const failure = this.#lastFailure instanceof Error ? ` (${this.#lastFailure.message})` : ''
    const why =
      sleptMs > 0 ? `ran out while this host slept for ${sleptMs} ms` : `could not be renewed in time${failure}`
    return new EGpuError(
      EGpuErrorCode.StaleEpoch,
      `the lease on ${this.#tenure.resource} ${why}; another host may have it by now`,
      { cause: this.#lastFailure },
    )
  }

  #end(reason: EGpuError): void {
    if (!this.#over.signal.aborted) this.#over.abort(reason)
  }
}

/** A renewal that takes longer than this is tried again elsewhere: the host that was asked may be cut off. In whole ms. */
function attemptMs(leaseMs: number): number {
  return Math.min(2 ** 31 - 1, Math.max(200, Math.floor(leaseMs / 4)))
}

function staleError({ resource, token }: Tenure, cause: unknown): EGpuError {
  const why = cause instanceof Error ? cause.message : 'it is over'
  return new EGpuError(EGpuErrorCode.StaleEpoch, `this host no longer owns ${resource} (token ${token}): ${why}`, {
    cause,
  })
}
