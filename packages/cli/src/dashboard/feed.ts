import { randomUUID } from 'node:crypto'
import type { HealthSample } from '@egpu/core'
import { toJson } from '../output/json.ts'
import type { DashboardMachine } from './machine.ts'
import type { DashboardState, SamplePoint, TimelineEntry } from './protocol.ts'
import { Ring } from './ring.ts'
import { newsOf, newsOfMesh, type News } from './timeline.ts'

/** A page that reads nothing for this many events is told the rest only; at 1,000 events a second that is 10 s. */
const entriesKept = 10_000

/** A quarter of an hour of two devices at one sample a second. */
const samplesKept = 1_800

/** Progress of workloads comes without events, so the state is looked at this often while somebody watches. */
const lookEveryMs = 500

/** News is gathered this long, so that a burst of a thousand events is a few messages and not a thousand. */
const gatherMs = 100

/** The whole state as it was at one look, in JSON; `version` rises when it differs from the look before. */
export interface ShownState {
  readonly version: number
  readonly json: string
}

/**
 * What happens on a machine, kept so that any number of pages can follow it at their own pace. However many there are,
 * the machine is looked at once; while there are none, not at all.
 */
export class Feed implements Disposable {
  /** Which run of the server this is: numbers of entries start anew with each. */
  readonly boot: string = randomUUID()
  readonly entries: Ring<TimelineEntry> = new Ring(entriesKept)
  readonly samples: Ring<SamplePoint> = new Ring(samplesKept)
  readonly #machine: DashboardMachine
  readonly #stop: AbortController = new AbortController()
  #news: PromiseWithResolve = promiseWithResolve()
  #shown: ShownState = { version: 0, json: '' }
  #followers = 0
  #looking: NodeJS.Timeout | undefined
  #gathering: NodeJS.Timeout | undefined

  constructor(machine: DashboardMachine) {
    this.#machine = machine
    void this.#follow()
    const stopSampling = machine.manager.on('health-sampled', ({ device, sample }) => this.#sampled(device.id, sample))
    this.#stop.signal.addEventListener('abort', stopSampling, { once: true })
    const stopMesh = machine.mesh?.listen((event) => {
      const news = newsOfMesh(event)
      if (news !== undefined) this.#happened(news)
    })
    if (stopMesh !== undefined) this.#stop.signal.addEventListener('abort', stopMesh, { once: true })
  }

  /** Has the machine looked at until the returned function is called. */
  follow(): () => void {
    this.#followers += 1
    this.#looking ??= setInterval(() => this.#look(), lookEveryMs)
    this.#look()
    let follows = true
    return () => {
      if (!follows) return
      follows = false
      this.#followers -= 1
      if (this.#followers === 0) this.#rest()
    }
  }

  /** As it was at the last look. */
  get shown(): ShownState {
    return this.#shown
  }

  /** Resolves after the next look, or at the end. */
  news(): Promise<void> {
    return this.#news.promise
  }

  [Symbol.dispose](): void {
    this.#stop.abort()
    this.#rest()
    this.#wake()
  }

  #rest(): void {
    clearInterval(this.#looking)
    clearTimeout(this.#gathering)
    this.#looking = undefined
    this.#gathering = undefined
  }

  async #follow(): Promise<void> {
    for await (const event of this.#machine.manager.events({ signal: this.#stop.signal })) this.#happened(newsOf(event))
  }

  #happened(news: News): void {
    this.entries.push({ seq: this.entries.count + 1, at: Date.now(), ...news })
    this.#lookSoon()
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
    this.#lookSoon()
  }

  #lookSoon(): void {
    if (this.#followers > 0) this.#gathering ??= setTimeout(() => this.#look(), gatherMs)
  }

  #look(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    const json = toJson(stateOf(this.#machine))
    if (json !== this.#shown.json) this.#shown = { version: this.#shown.version + 1, json }
    this.#wake()
  }

  #wake(): void {
    const { resolve } = this.#news
    this.#news = promiseWithResolve()
    resolve()
  }
}

function stateOf(machine: DashboardMachine): DashboardState {
  const { manager, name, simulator, cuda, mesh } = machine
  const { devices, enclosures, findings, drivers } = manager
  return {
    host: { name, simulated: simulator !== undefined },
    devices,
    enclosures,
    findings,
    drivers: drivers.map(({ name: driver, state, reason }) => ({ name: driver, state, reason })),
    health: Object.fromEntries(devices.map(({ id }) => [id, manager.health(id)])),
    workloads: machine.workloads(),
    programs: cuda?.now() ?? { programs: [], problem: undefined },
    mesh: mesh?.now(),
    cables: simulator?.cables() ?? [],
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
