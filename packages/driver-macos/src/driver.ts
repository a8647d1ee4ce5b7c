import { EGpuError, EGpuErrorCode, abandonable, systemClock } from '@egpu/core'
import type { AbortOptions, Clock, HealthSample } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DriverCapabilities, DriverEvent, DriverSnapshot, EGpuDriver, ProbeResult } from '@egpu/core/driver'
import type { Detection } from './detect/detect.ts'
import { watchedClasses } from './detect/roles.ts'
import { readHealth } from './health.ts'
import { iokitSource } from './iokit/source.ts'
import { Looker } from './look.ts'
import type { RegistrySource, RegistryWatch } from './registry/source.ts'
import { Tracker } from './watch.ts'

export interface MacosDriverOptions {
  /** Where the registry comes from: `iokitSource()` unless given; `plistSource(bytes)` for a dump. */
  readonly source?: RegistrySource | undefined
  readonly clock?: Clock | undefined
  /**
   * How long to wait before looking again at something that has just come: its driver attaches a little later. 200
   * unless given; doubled while it is published but not yet matched.
   */
  readonly settleMs?: number | undefined
  /**
   * How often to look at everything although nothing came or went: a link that retrains tells nobody. 60,000 unless
   * given; a look at 5,000 entries takes some 20 ms of CPU.
   */
  readonly rescanMs?: number | undefined
}

/** So many looks in a row may fail before a watch gives up. */
const maxFailures = 5

/**
 * External GPUs of a Mac, from the IORegistry: which GPUs are behind a cable, the box they are in, what their link
 * amounts to, who drives them, and what keeps them from working. Nothing is loaded or run before the first call, and
 * nothing ever touches the GPU itself.
 */
export function macosDriver(options: MacosDriverOptions = {}): EGpuDriver {
  return new MacosDriver(options)
}

class MacosDriver implements EGpuDriver {
  readonly specVersion = 1
  readonly name = 'macos'
  readonly capabilities: DriverCapabilities
  readonly health: { sample(key: string, options?: AbortOptions): Promise<HealthSample> } = {
    sample: (key, options = {}) => this.#sample(key, options),
  }
  readonly #source: RegistrySource
  readonly #clock: Clock
  readonly #looker: Looker
  readonly #settleMs: number
  readonly #rescanMs: number
  readonly #closing = new AbortController()
  /** Watches and calls under way: the source is let go of once they have ended. */
  readonly #running = new Set<Promise<unknown>>()
  readonly #bestGBps = new Map<string, number>()
  #closed: Promise<void> | undefined

  constructor({ source = iokitSource(), clock = systemClock, settleMs = 200, rescanMs = 60_000 }: MacosDriverOptions) {
    requirePositive('settleMs', settleMs)
    requirePositive('rescanMs', rescanMs)
    this.#source = source
    this.#clock = clock
    this.#looker = new Looker(source, clock)
    this.#settleMs = settleMs
    this.#rescanMs = rescanMs
    this.capabilities = {
      hotplug: source.watch !== undefined,
      verdict: true,
      health: true,
      safeRemoval: false,
      passthrough: false,
      runtimes: [],
    }
  }

  async probe(options: AbortOptions = {}): Promise<ProbeResult> {
    options.signal?.throwIfAborted()
    if (this.#closing.signal.aborted) return { usable: false, reason: 'this driver was closed' }
    return this.#untilClosed(options, (own) => this.#source.probe(own))
  }

  async list(options: AbortOptions = {}): Promise<DriverSnapshot> {
    return (await this.#look(options)).snapshot
  }

  watch({ signal }: Required<AbortOptions>): AsyncIterable<DriverEvent> {
    const ended = new AbortController()
    const own = [ended.signal, this.#closing.signal]
    const all = AbortSignal.any(signal === undefined ? own : [signal, ...own])
    const queue = new EventQueue<DriverEvent>({ signal: all, onEnd: () => ended.abort() })
    if (!all.aborted) void this.#track(this.#pump(queue, all).catch((error: unknown) => queue.fail(error)))
    return queue
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#closing.abort(closedError())
    await Promise.allSettled(this.#running)
    await this.#source[Symbol.asyncDispose]()
  }

  async #look(options: AbortOptions): Promise<Detection> {
    return this.#untilClosed(options, (own) => this.#looker.look(own))
  }

  async #sample(key: string, options: AbortOptions): Promise<HealthSample> {
    const { devices, snapshot } = await this.#look(options)
    const device = snapshot.devices.find((one) => one.key === key)
    const entryId = devices.get(key)?.entryId
    if (device === undefined || entryId === undefined) {
      const message = `there is no GPU with the key ${JSON.stringify(key.slice(0, 80))} on this Mac`
      throw new EGpuError(EGpuErrorCode.DeviceNotFound, message, { driver: this.name, deviceId: key })
    }
    const registry = await this.#source.open(options)
    return readHealth(registry, entryId, device, this.#clock.now(), this.#bestGBps)
  }

  /** Subscribes, looks, and then follows until `signal` aborts. */
  async #pump(queue: EventQueue<DriverEvent>, signal: AbortSignal): Promise<void> {
    try {
      const watch = await this.#source.watch?.(watchedClasses, signal)
      try {
        const detection = await this.#looker.look({ signal })
        queue.push({ type: 'resync', reason: 'started', snapshot: detection.snapshot })
        if (watch !== undefined) await this.#follow(watch, new Tracker(detection), queue, signal)
      } finally {
        await watch?.[Symbol.asyncDispose]()
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }

  async #follow(
    watch: RegistryWatch,
    tracker: Tracker,
    queue: EventQueue<DriverEvent>,
    signal: AbortSignal,
  ): Promise<void> {
    let waitMs = this.#rescanMs
    let failures = 0
    /** Kept until a look succeeds: what was dropped is known by then, not before. */
    let overflowed = false
    for (;;) {
      const change = await watch.next({ signal, timeoutMs: waitMs })
      overflowed ||= change.overflowed
      for (const event of tracker.departures(change.removed)) queue.push(event)
      let latest: Detection
      try {
        latest = await this.#looker.look({ signal })
        failures = 0
      } catch (error) {
        failures += 1
        if (signal.aborted || failures === maxFailures) throw error
        waitMs = this.#settleMs
        continue
      }
      const isNews = overflowed || change.added.length > 0
      if (overflowed) {
        overflowed = false
        tracker.reset(latest)
        queue.push({ type: 'resync', reason: 'overflow', snapshot: latest.snapshot })
      } else {
        for (const event of tracker.differences(latest)) queue.push(event)
      }
      // What has just come is matched, and driven, a moment later: look again soon, then ever less often.
      waitMs = Math.min(isNews ? this.#settleMs : waitMs * 2, this.#rescanMs)
    }
  }

  /**
   * A call ends with its own signal or with the driver: a program that hangs must not hold up `close()`. Listens by hand,
   * because `AbortSignal.any` of Node 20 keeps something for every call on a signal that lives as long as `#closing`
   * (https://github.com/nodejs/node/issues/55351).
   */
  async #untilClosed<T>(options: AbortOptions, call: (own: AbortOptions) => Promise<T>): Promise<T> {
    const signals = [options.signal, this.#closing.signal].filter((signal) => signal !== undefined)
    for (const signal of signals) signal.throwIfAborted()
    const ended = new AbortController()
    const end = (event: Event): void => ended.abort((event.target as AbortSignal).reason)
    for (const signal of signals) signal.addEventListener('abort', end, { once: true })
    try {
      return await abandonable(this.#track(call({ signal: ended.signal })), ended.signal)
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', end)
    }
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => undefined,
      () => undefined,
    )
    this.#running.add(settled)
    void settled.then(() => this.#running.delete(settled))
    return work
  }
}

function closedError(): EGpuError {
  return new EGpuError(EGpuErrorCode.Closed, 'this macOS driver was closed; make a new one', { driver: 'macos' })
}

function requirePositive(name: string, value: number): void {
  if (!(value > 0)) throw new TypeError(`${name} is a number of milliseconds above 0`)
}
