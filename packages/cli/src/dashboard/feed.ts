import { randomUUID } from 'node:crypto'
import type { EGpuEvent, HealthSample } from '@egpu/core'
import type { DashboardMachine } from './machine.ts'
import type { DashboardState, SamplePoint, TimelineEntry } from './protocol.ts'
import { Ring } from './ring.ts'
import { timelineEntry } from './timeline.ts'

/** A page that reads nothing for this many events is told the rest only; at 1,000 events a second that is 10 s. */
const entriesKept = 10_000

/** A quarter of an hour of two devices at one sample a second. */
const samplesKept = 1_800

/** Progress of workloads comes without events, so the state is looked at this often while somebody watches. */
const lookEveryMs = 500

/** What happens on a machine, kept so that any number of pages can follow it at their own pace. */
export class Feed implements Disposable {
  /** Which run of the server this is: numbers of entries start anew with each. */
  readonly boot: string = randomUUID()
  readonly entries: Ring<TimelineEntry> = new Ring(entriesKept)
  readonly samples: Ring<SamplePoint> = new Ring(samplesKept)
  readonly #machine: DashboardMachine
  readonly #stop: AbortController = new AbortController()
  #news: PromiseWithResolve = promiseWithResolve()

  constructor(machine: DashboardMachine) {
    this.#machine = machine
    void this.#follow()
    const stopSampling = machine.manager.on('health-sampled', ({ device, sample }) => this.#sampled(device.id, sample))
    this.#stop.signal.addEventListener('abort', stopSampling, { once: true })
    const timer = setInterval(() => this.#tell(), lookEveryMs)
    timer.unref()
    this.#stop.signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  }

  /** Everything as it is now. */
  state(): DashboardState {
    const { manager, name, simulator } = this.#machine
    const { devices, enclosures, findings, drivers } = manager
    return {
      host: { name, simulated: simulator !== undefined },
      devices,
      enclosures,
      findings,
      drivers: drivers.map(({ name, state, reason }) => ({ name, state, reason })),
      health: Object.fromEntries(devices.map(({ id }) => [id, manager.health(id)])),
      workloads: this.#machine.workloads(),
      cables: simulator?.cables() ?? [],
    }
  }

  /** Resolves when something may have changed since the call. */
  news(): Promise<void> {
    return this.#news.promise
  }

  [Symbol.dispose](): void {
    this.#stop.abort()
    this.#tell()
  }

  async #follow(): Promise<void> {
    for await (const event of this.#machine.manager.events({ signal: this.#stop.signal })) this.#happened(event)
  }

  #happened(event: EGpuEvent): void {
    this.entries.push(timelineEntry(event, this.entries.count + 1, Date.now()))
    this.#tell()
  }

  #sampled(deviceId: string, { temperatureCelsius, powerWatts }: HealthSample): void {
    const { manager } = this.#machine
    this.samples.push({
      at: Date.now(),
      deviceId,
      score: manager.health(deviceId).score,
      temperatureCelsius,
      powerWatts,
      linkGBps: manager.find(deviceId)?.link?.effectiveGBps?.toDevice,
    })
    this.#tell()
  }

  #tell(): void {
    const { resolve } = this.#news
    this.#news = promiseWithResolve()
    resolve()
  }
}

interface PromiseWithResolve {
  readonly promise: Promise<void>
  readonly resolve: () => void
}

function promiseWithResolve(): PromiseWithResolve {
  let resolve!: () => void
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
