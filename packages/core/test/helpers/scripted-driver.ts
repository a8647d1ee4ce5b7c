import { EventQueue } from '../../src/driver/event-queue.ts'
import type { DriverEvent, ResyncReason } from '../../src/driver/events.ts'
import type { DriverCapabilities, EGpuDriver, ProbeResult } from '../../src/driver/driver.ts'
import type { DeviceObservation, DriverSnapshot } from '../../src/driver/observation.ts'
import type { AbortOptions } from '../../src/abort.ts'

/** A driver whose machine is whatever the test says. It keeps the contract unless the test overrides a part. */
export class ScriptedDriver implements EGpuDriver {
  readonly specVersion = 1 as const
  readonly name: string
  readonly capabilities: DriverCapabilities
  snapshot: DriverSnapshot
  closed: number = 0
  readonly queues: Set<EventQueue<DriverEvent>> = new Set()

  constructor(
    name = 'bus',
    devices: readonly DeviceObservation[] = [],
    capabilities: Partial<DriverCapabilities> = {},
    facets: Partial<EGpuDriver> = {},
  ) {
    this.name = name
    this.snapshot = { devices, enclosures: [], findings: [] }
    this.capabilities = {
      hotplug: true,
      verdict: true,
      health: false,
      safeRemoval: false,
      passthrough: false,
      runtimes: [],
      ...capabilities,
    }
    Object.assign(this, facets)
  }

  set devices(devices: readonly DeviceObservation[]) {
    this.snapshot = { ...this.snapshot, devices }
  }

  push(...events: DriverEvent[]): void {
    for (const queue of this.queues) for (const event of events) queue.push(event)
  }

  resync(reason: ResyncReason = 'overflow'): void {
    this.push({ type: 'resync', reason, snapshot: this.snapshot })
  }

  failWatch(error: unknown): void {
    for (const queue of this.queues) queue.fail(error)
  }

  endWatch(): void {
    for (const queue of this.queues) queue.finish()
  }

  probe(_options?: AbortOptions): Promise<ProbeResult> {
    return Promise.resolve({ usable: true })
  }

  list(_options?: AbortOptions): Promise<DriverSnapshot> {
    return Promise.resolve(this.snapshot)
  }

  watch({ signal }: Required<AbortOptions>): AsyncIterable<DriverEvent> {
    const queue: EventQueue<DriverEvent> = new EventQueue({ signal, onEnd: () => this.queues.delete(queue) })
    this.queues.add(queue)
    queue.push({ type: 'resync', reason: 'started', snapshot: this.snapshot })
    return queue
  }

  close(): Promise<void> {
    this.closed += 1
    for (const queue of this.queues) queue.end()
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
