import type { AbortOptions } from '../abort.ts'
import type { Clock } from '../clock.ts'
import type { EGpuDriver } from '../driver/driver.ts'
import type { DriverEvent } from '../driver/events.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import { withDeadline } from './deadline.ts'
import type { DriverEvents } from './driver-events.ts'
import type { DriverStatus } from './driver-status.ts'
import type { EventHub } from './event-hub.ts'
import type { Source } from './fusion/tracked-device.ts'
import { checkSnapshot } from './snapshot-check.ts'
import type { CheckedSnapshot } from './snapshot-check.ts'

/** A look that events kept overtaking is not worth a third repetition: the watch tells the same. */
const listAttempts = 3

export interface DriverSessionOptions {
  readonly driver: EGpuDriver
  readonly rank: number
  readonly clock: Clock
  readonly hub: EventHub
  readonly events: DriverEvents
  readonly timeoutMs: number
}

/** One driver in a manager: every call into it is bounded, and whatever it does wrong becomes an event. */
export class DriverSession {
  readonly driver: EGpuDriver
  readonly source: Source
  readonly #clock: Clock
  readonly #hub: EventHub
  readonly #events: DriverEvents
  readonly #timeoutMs: number
  #state: DriverStatus['state'] = 'usable'
  #reason: string | undefined
  #error: EGpuError | undefined
  /** Counts what the watch delivered, to tell a look that was overtaken by it. */
  #delivered = 0

  constructor({ driver, rank, clock, hub, events, timeoutMs }: DriverSessionOptions) {
    this.driver = driver
    this.source = { name: driver.name, rank, authority: driver.capabilities.verdict }
    this.#clock = clock
    this.#hub = hub
    this.#events = events
    this.#timeoutMs = timeoutMs
  }

  get name(): string {
    return this.driver.name
  }

  /** Whether it is worth asking: also after a failure, but not where it said that it cannot work. */
  get asks(): boolean {
    return this.#state !== 'unusable'
  }

  get status(): DriverStatus {
    return {
      name: this.name,
      capabilities: this.driver.capabilities,
      state: this.#state,
      reason: this.#reason,
      error: this.#error,
    }
  }

  /** Probes and lists. `undefined` when it cannot be used; `status` says why. */
  async open({ signal }: AbortOptions): Promise<CheckedSnapshot | undefined> {
    try {
      const probe = await this.call('probe', (inner) => this.driver.probe({ signal: inner }), signal)
      if (!probe.usable) {
        this.#state = 'unusable'
        this.#reason = probe.reason
        return undefined
      }
      const look = checkSnapshot(await this.call('list', (inner) => this.driver.list({ signal: inner }), signal))
      if (look === undefined) throw this.#violation('answered list() without devices, enclosures and findings')
      return look
    } catch (error) {
      signal?.throwIfAborted()
      this.fail(error, true)
      return undefined
    }
  }

  /** Lists again and tells the differences. A list that the watch overtook while it was made is made again. */
  async refresh({ signal }: AbortOptions): Promise<void> {
    try {
      for (let attempt = 0; attempt < listAttempts; attempt += 1) {
        const delivered = this.#delivered
        const snapshot = await this.call('list', (inner) => this.driver.list({ signal: inner }), signal)
        if (delivered !== this.#delivered) continue
        this.#recovered()
        this.#take({ type: 'resync', reason: 'requested', snapshot })
        return
      }
    } catch (error) {
      signal?.throwIfAborted()
      this.fail(error, false)
    }
  }

  /** Calls the driver within the time it has. Its own errors pass through. */
  call<T>(what: string, work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const late = (): EGpuError =>
      new EGpuError(
        EGpuErrorCode.Timeout,
        `driver ${this.name} has not answered ${what} within ${this.#timeoutMs} ms; the others go on without it`,
        { driver: this.name },
      )
    return withDeadline(work, { ms: this.#timeoutMs, clock: this.#clock, signal, late })
  }

  /** Watches until `signal` aborts. Resolves once the first resync is in, or will not come. */
  watch(signal: AbortSignal): { readonly synced: Promise<void>; readonly ended: Promise<void> } {
    let synced = (): void => undefined
    const first = new Promise<void>((resolve) => {
      synced = resolve
    })
    const ended = this.#pump(signal, synced).finally(synced)
    const timely = this.call('watch (its first resync)', () => first, signal).catch((error: unknown) => {
      if (!signal.aborted) this.fail(error, false)
    })
    return { synced: timely, ended }
  }

  /** Makes a failure known. A fatal one means that nothing more comes from this driver by itself. */
  fail(cause: unknown, fatal: boolean): void {
    const error = EGpuError.is(cause)
      ? cause
      : new EGpuError(EGpuErrorCode.DriverMisbehaved, `driver ${this.name} failed: ${textOf(cause)}`, {
          cause,
          driver: this.name,
        })
    this.#error = error
    if (fatal) {
      this.#state = 'failed'
      this.#reason = error.message
    }
    this.#hub.emit({ type: 'driver-failed', driver: this.name, error, fatal })
  }

  /** It broke a rule; what it said besides is used. */
  violated(what: string): void {
    this.fail(this.#violation(what), false)
  }

  /**
   * Reads the watch step by step instead of with `for await`: an event then reaches its listener one microtask after
   * the driver pushed it, and an abort ends the reading even if the driver ignores it.
   */
  #pump(signal: AbortSignal, synced: () => void): Promise<void> {
    return new Promise((resolve) => {
      let iterator: AsyncIterator<DriverEvent>
      const end = (): void => {
        signal.removeEventListener('abort', end)
        resolve()
        // A driver may refuse, throw or hang here; its watch is over for us either way.
        if (signal.aborted) void leave(iterator).catch(() => undefined)
      }
      const failed = (error: unknown): void => {
        if (!signal.aborted) this.fail(error, true)
        end()
      }
      const read = (): void => {
        try {
          iterator.next().then(step, failed)
        } catch (error) {
          failed(error)
        }
      }
      const step = (result: IteratorResult<DriverEvent>): void => {
        if (signal.aborted) return
        if (typeof result !== 'object' || result === null) {
          failed(this.#violation('gave something else than results from its watch'))
          return
        }
        if (result.done === true) {
          failed(this.#violation('ended its watch by itself'))
          return
        }
        this.#delivered += 1
        this.#take(result.value)
        if (result.value?.type === 'resync') synced()
        read()
      }
      if (signal.aborted) {
        resolve()
        return
      }
      signal.addEventListener('abort', end, { once: true })
      try {
        iterator = this.driver.watch({ signal })[Symbol.asyncIterator]()
        this.#recovered()
        read()
      } catch (error) {
        failed(error)
      }
    })
  }

  /** No event of a driver, however wrong, may stop the ones after it. */
  #take(event: DriverEvent): void {
    try {
      const violation = this.#events.apply(this.source, event)
      if (violation !== undefined) this.violated(violation)
    } catch (cause) {
      this.fail(
        new EGpuError(
          EGpuErrorCode.DriverMisbehaved,
          `driver ${this.name} sent an event that makes no sense: ${textOf(cause)}`,
          {
            cause,
            driver: this.name,
          },
        ),
        false,
      )
    }
  }

  #recovered(): void {
    if (this.#state !== 'failed') return
    this.#state = 'usable'
    this.#reason = undefined
  }

  #violation(what: string): EGpuError {
    return new EGpuError(EGpuErrorCode.DriverMisbehaved, `driver ${this.name} ${what}`, { driver: this.name })
  }
}

async function leave(iterator: AsyncIterator<DriverEvent> | undefined): Promise<void> {
  await iterator?.return?.()
}

function textOf(cause: unknown): string {
  try {
    return cause instanceof Error ? cause.message : String(cause)
  } catch {
    return 'with something that cannot be shown as text'
  }
}
