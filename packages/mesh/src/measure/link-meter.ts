import type { Channel } from '../control/channel.ts'
import type { LinkMeasurement } from '../peer.ts'
import { LatencyHistory } from './latency-history.ts'
import { measureLatency, measureThroughput, type Latency, type Throughput } from './probe.ts'

/** Between measurements of a link: quickly at first, since one window alone may be off. */
const pausesMs = [500, 1_000, 2_000, 4_000] as const
const everyMs = 10_000
/** Links that are about equally far are measured more often, so that the nearer one is known for certain. */
const closeUs = 150
const everyMsWhileClose = 3_000

export interface LinkMeterOptions {
  readonly onMeasured: (channel: Channel) => void
  readonly probeBytes: number
  /** What this process takes for a round trip to itself. */
  readonly measureSelf: (signal: AbortSignal | undefined) => Promise<Latency>
}

/** A clock tells no less. */
const leastUs = 1

interface Reading {
  readonly latencies: LatencyHistory
  throughput: Throughput | undefined
}

/**
 * Measures links one after the other, so that two measurements never disturb each other: latency when a link comes up and
 * every ten seconds, or three among links that are about equally far; throughput of a cable when it comes up and when asked.
 */
export class LinkMeter {
  readonly #options: LinkMeterOptions
  readonly #readings = new Map<Channel, Reading>()
  readonly #stop = new AbortController()
  /** Of this process, one for all links: they keep their order. */
  readonly #self = new LatencyHistory()
  #queue: Promise<void> = Promise.resolve()

  constructor(options: LinkMeterOptions) {
    this.#options = options
  }

  /** Measures until the link ends. Resolves after the first latency, or the end. */
  async watch(channel: Channel): Promise<void> {
    this.#readings.set(channel, { latencies: new LatencyHistory(), throughput: undefined })
    void channel.closed.then(() => this.#readings.delete(channel))
    await this.#latency(channel)
    void this.#goOn(channel)
  }

  of(channel: Channel): LinkMeasurement {
    const reading = this.#readings.get(channel)
    const throughput = reading?.throughput
    const latencyUs = less(reading?.latencies.minUs, this.#self.minUs)
    const latencyP50Us = less(reading?.latencies.lastP50Us, this.#self.lastP50Us)
    return {
      ...(latencyUs === undefined ? {} : { latencyUs, latencyP50Us }),
      ...(throughput === undefined
        ? {}
        : { receiveGbps: throughput.receiveGbps, transmitGbps: throughput.transmitGbps }),
    }
  }

  /** Measures now; rejects where the link cannot be measured. */
  async measure(
    channel: Channel,
    options: { readonly signal?: AbortSignal | undefined; readonly bytes?: number | undefined } = {},
  ): Promise<LinkMeasurement> {
    await this.#inTurn(async () => {
      await this.#latencyOf(channel, options.signal)
      const throughput = await measureThroughput(channel, options)
      const reading = this.#readings.get(channel)
      if (reading !== undefined) reading.throughput = throughput
    })
    this.#options.onMeasured(channel)
    return this.of(channel)
  }

  close(): void {
    this.#stop.abort()
  }

  async #goOn(channel: Channel): Promise<void> {
    const { probeBytes } = this.#options
    if (channel.link.kind === 'thunderbolt' && probeBytes > 0 && channel.isOpen)
      await this.#quietly(channel, async (reading) => {
        reading.throughput = await measureThroughput(channel, { signal: this.#stop.signal, bytes: probeBytes })
      })
    for (let round = 0; channel.isOpen && !this.#stop.signal.aborted; round += 1) {
      await pause(pausesMs[round] ?? (this.#isContended(channel) ? everyMsWhileClose : everyMs), this.#stop.signal)
      if (channel.isOpen && !this.#stop.signal.aborted) await this.#latency(channel)
    }
  }

  #latency(channel: Channel): Promise<void> {
    return this.#quietly(channel, () => this.#latencyOf(channel, this.#stop.signal))
  }

  async #latencyOf(channel: Channel, signal: AbortSignal | undefined): Promise<void> {
    this.#self.add(await this.#options.measureSelf(signal), performance.now())
    this.#note(channel, await measureLatency(channel, { signal }))
  }

  #note(channel: Channel, latency: Latency): void {
    const reading = this.#readings.get(channel)
    if (reading === undefined) return
    reading.latencies.add(latency, performance.now())
    channel.latencyUs = less(reading.latencies.minUs, this.#self.minUs)
  }

  /** Whether another link of the kind is so near in latency that noise could turn the two round. */
  #isContended(channel: Channel): boolean {
    const { latencyUs, link } = channel
    return [...this.#readings.keys()].some(
      (other) =>
        other !== channel &&
        other.link.kind === link.kind &&
        Math.abs((other.latencyUs ?? Infinity) - (latencyUs ?? Infinity)) <= closeUs,
    )
  }

  /** A measurement that fails leaves what was known: not measured is not slow. */
  async #quietly(channel: Channel, work: (reading: Reading) => Promise<void>): Promise<void> {
    const reading = this.#readings.get(channel)
    if (reading === undefined) return
    try {
      await this.#inTurn(() => work(reading))
      this.#options.onMeasured(channel)
    } catch {
      // The link went down, or the peer refused: both are told elsewhere.
    }
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#queue.then(work)
    this.#queue = turn.catch(() => {})
    return turn
  }
}

function less(wholeUs: number | undefined, selfUs: number | undefined): number | undefined {
  return wholeUs === undefined ? undefined : Math.max(leastUs, wholeUs - (selfUs ?? 0))
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    timer.unref()
    signal.addEventListener('abort', end, { once: true })
  })
}
