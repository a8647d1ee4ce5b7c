import type { Clock } from '../clock.ts'
import type { DeviceTracker } from './device-tracker.ts'
import type { DriverSession } from './driver-session.ts'
import { HealthSampler } from './health-sampler.ts'
import type { MonitoringOptions } from './options.ts'

interface Run {
  readonly controller: AbortController
  readonly synced: Promise<void>
  readonly ended: Promise<void>
}

/** Watches all drivers, one run at a time. */
export class Monitor {
  readonly #sessions: readonly DriverSession[]
  readonly #sampler: HealthSampler
  #run: Run | undefined

  constructor(sessions: readonly DriverSession[], devices: DeviceTracker, clock: Clock) {
    this.#sessions = sessions
    this.#sampler = new HealthSampler(clock, devices)
  }

  get isOn(): boolean {
    return this.#run !== undefined
  }

  /** Resolves once every driver is in step. A run in progress is joined. */
  start({ signal, healthIntervalMs }: MonitoringOptions & { readonly healthIntervalMs: number }): Promise<void> {
    this.#run ??= this.#begin(healthIntervalMs, signal)
    return this.#run.synced
  }

  async stop(): Promise<void> {
    const run = this.#run
    this.#run = undefined
    run?.controller.abort()
    await run?.ended
  }

  #begin(healthIntervalMs: number, outer: AbortSignal | undefined): Run {
    const controller = new AbortController()
    const { signal } = controller
    const stop = (): void => {
      // It may have been stopped already, and another run may have begun.
      if (this.#run?.controller === controller) void this.stop()
    }
    outer?.addEventListener('abort', stop, { once: true })
    const sessions = this.#sessions.filter((session) => session.asks)
    const watches = sessions.map((session) => session.watch(signal))
    const synced = Promise.all(watches.map((watch) => watch.synced)).then(() => undefined)
    // Not before the first looks are in: until then it is not known who is asleep.
    const sampling = synced.then(() =>
      healthIntervalMs === 0 ? undefined : this.#sampler.run(sessions, healthIntervalMs, signal),
    )
    const ended = Promise.all([sampling, ...watches.map((watch) => watch.ended)]).then(() => {
      outer?.removeEventListener('abort', stop)
    })
    return { controller, synced, ended }
  }
}
