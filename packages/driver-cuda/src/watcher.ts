import type { Clock, Finding } from '@egpu/core'
import { EventQueue } from '@egpu/core/driver'
import type { DeviceObservation, DriverEvent, DriverSnapshot } from '@egpu/core/driver'
import type { RawEvent } from './host/protocol.ts'
import { meaningOf } from './nvml/xid.ts'

/** What a watcher needs of its driver. */
export interface Watched {
  readonly clock: Clock
  readonly rescanMs: number
  signature(): string
  look(signal: AbortSignal): Promise<{ readonly devices: readonly DeviceObservation[]; readonly signature: string }>
  /** Keeps NVML open and has its events sent, from when it resolves on; the function it gives ends that. */
  openEvents(): Promise<() => void>
  uuidOf(busId: string): string | undefined
}

/** Findings of one GPU that are kept; the newest are the interesting ones. */
const findingsKept = 8

/**
 * Tells what changed, to any number of watches. Arrivals and departures come from sysfs, looked at every `rescanMs`,
 * without touching a device; deaths come from NVML's events as they happen.
 */
export class Watcher {
  readonly #watched: Watched
  readonly #queues = new Set<EventQueue<DriverEvent>>()
  readonly #dead = new Map<string, 'lost' | 'wedged'>()
  readonly #findings = new Map<string, Finding[]>()
  #told = new Map<string, DeviceObservation>()
  #signature = ''
  /** Watches that have not ended, also those that have nothing to tell yet. */
  #open = 0
  #loop: AbortController | undefined
  #events: Promise<() => void> | undefined

  constructor(watched: Watched) {
    this.#watched = watched
  }

  get findings(): readonly Finding[] {
    return [...this.#findings.values()].flat()
  }

  /** As NVML listed it, or as its events have declared it. */
  stageOf(device: DeviceObservation): DeviceObservation {
    const stage = this.#dead.get(device.key)
    return stage === undefined ? device : { ...device, stage }
  }

  watch(signal: AbortSignal): EventQueue<DriverEvent> {
    const end = new AbortController()
    const queue = new EventQueue<DriverEvent>({
      signal,
      // However it ends: by the signal, or by a reader who has left.
      onEnd: () => {
        end.abort()
        this.#queues.delete(queue)
        this.#open -= 1
        if (this.#open === 0) this.#stop()
      },
    })
    this.#open += 1
    if (!signal.aborted) void this.#begin(queue, end.signal)
    return queue
  }

  /** An event of NVML. */
  take(event: RawEvent): void {
    const key = this.#watched.uuidOf(event.busId)
    if (key === undefined) return
    const meaning = meaningOf(event)
    if (meaning.kind === 'finding') {
      const findings = [...(this.#findings.get(key) ?? []), { ...meaning.finding, deviceId: key }]
      this.#findings.set(key, findings.slice(-findingsKept))
      this.#push({ type: 'findings-observed', findings: this.findings })
    } else this.die(key, meaning.kind, meaning.reason)
  }

  /** Word of a death, from whoever met it first. */
  die(key: string, kind: 'lost' | 'wedged', reason: string): void {
    if (this.#dead.get(key) === kind) return
    this.#dead.set(key, kind)
    if (this.#told.has(key)) this.#push({ type: kind === 'lost' ? 'device-lost' : 'device-wedged', key, reason })
  }

  close(): void {
    for (const queue of this.#queues) queue.end()
  }

  async #begin(queue: EventQueue<DriverEvent>, signal: AbortSignal): Promise<void> {
    try {
      // Who dies from here on is told by an event, who died before by the look.
      await (this.#events ??= this.#watched.openEvents())
      const { devices, signature } = await this.#watched.look(signal)
      const snapshot: DriverSnapshot = {
        devices: devices.map((device) => this.stageOf(device)),
        enclosures: [],
        findings: this.findings,
      }
      if (signal.aborted) return
      queue.push({ type: 'resync', reason: 'started', snapshot })
      // The first watch says what has been told; to the others the differences are told like to everybody.
      if (this.#queues.size === 0) {
        this.#told = new Map(devices.map((device) => [device.key, device]))
        this.#signature = signature
      }
      this.#queues.add(queue)
      this.#start()
    } catch (error) {
      if (!signal.aborted) queue.fail(error)
    }
  }

  #start(): void {
    if (this.#loop !== undefined) return
    this.#loop = new AbortController()
    void this.#run(this.#loop.signal)
  }

  #stop(): void {
    this.#loop?.abort()
    this.#loop = undefined
    this.#closeEvents()
  }

  #closeEvents(): void {
    void this.#events?.then((end) => end())
    this.#events = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#watched.clock.sleep(this.#watched.rescanMs, { signal }).catch(() => undefined)
      if (signal.aborted) return
      if (this.#watched.signature() === this.#signature) continue
      await this.#rescan(signal).catch((error: unknown) => {
        if (!signal.aborted) for (const queue of this.#queues) queue.fail(error)
      })
    }
  }

  async #rescan(signal: AbortSignal): Promise<void> {
    // Departures first, from sysfs alone: a look may take seconds when a GPU has just gone.
    const then = incarnations(this.#signature)
    const now = incarnations(this.#watched.signature())
    for (const [key, device] of this.#told) {
      const address = device.identity.pciAddress ?? ''
      if (then.get(address) === now.get(address)) continue
      this.#told.delete(key)
      this.#dead.delete(key)
      this.#findings.delete(key)
      this.#push({ type: 'device-removed', key, graceful: false })
    }
    // Other GPUs may be touched now, so NVML is opened anew and its events with it.
    const before = this.#events
    this.#events = this.#watched.openEvents()
    await this.#events
    void before?.then((end) => end())
    const { devices, signature } = await this.#watched.look(signal)
    this.#signature = signature
    const listed = new Set(devices.map(({ key }) => key))
    for (const key of this.#told.keys()) {
      if (!listed.has(key)) {
        this.#told.delete(key)
        this.#push({ type: 'device-removed', key, graceful: false })
      }
    }
    for (const device of devices) {
      this.#told.set(device.key, device)
      this.#push({ type: 'device-observed', device: this.stageOf(device) })
    }
  }

  #push(event: DriverEvent): void {
    for (const queue of this.#queues) queue.push(event)
  }
}

/** `address incarnation state; …` by address, without the state: sleeping is no departure. */
function incarnations(signature: string): ReadonlyMap<string, string> {
  return new Map(
    signature
      .split('; ')
      .map((part) => part.split(' '))
      .map(([address = '', incarnation = '']) => [address, incarnation] as const),
  )
}
