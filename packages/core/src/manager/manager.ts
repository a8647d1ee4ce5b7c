import type { AbortOptions } from '../abort.ts'
import { systemClock } from '../clock.ts'
import type { Clock } from '../clock.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import { GpuDeviceRegistry } from '../registry/registry.ts'
import type { EGpuDevice } from '../types/device.ts'
import type { Enclosure } from '../types/enclosure.ts'
import type { EGpuEvent, EGpuEventType, UnstampedEvent } from '../types/events.ts'
import type { Finding } from '../types/finding.ts'
import type { HealthScore } from '../types/health.ts'
import type { ComputeTarget, OpenTarget } from '../types/target.ts'
import type { DisconnectPlan, DisconnectResult } from './disconnect-result.ts'
import type { DriverStatus } from './driver-status.ts'
import type { Guest } from './guest.ts'
import type { DisconnectOptions, EGpuManagerOptions, EventsOptions, MonitoringOptions, NextOptions } from './options.ts'

const pending = (): never => {
  throw new EGpuError(EGpuErrorCode.NotSupported, 'this part of the manager is not there yet')
}

/** Everything about the GPUs of this machine, from as many drivers as you hand over. */
export class EGpuManager implements AsyncDisposable {
  readonly clock: Clock
  readonly registry: GpuDeviceRegistry

  /** Probes and lists every driver; one that is unusable or broken does not stop the others. */
  static create(options: EGpuManagerOptions): Promise<EGpuManager> {
    return Promise.resolve(new EGpuManager(options))
  }

  private constructor(options: EGpuManagerOptions) {
    this.clock = options.clock ?? systemClock
    this.registry = new GpuDeviceRegistry({ clock: this.clock })
  }

  get devices(): readonly EGpuDevice[] {
    return pending()
  }

  get externalDevices(): readonly EGpuDevice[] {
    return pending()
  }

  get enclosures(): readonly Enclosure[] {
    return pending()
  }

  get findings(): readonly Finding[] {
    return pending()
  }

  /** How each driver fares, in the order they were handed over. */
  get drivers(): readonly DriverStatus[] {
    return pending()
  }

  find(_id: string): EGpuDevice | undefined {
    return pending()
  }

  get(_id: string): EGpuDevice {
    return pending()
  }

  health(_id: string): HealthScore {
    return pending()
  }

  refresh(_options: AbortOptions = {}): Promise<void> {
    return pending()
  }

  startMonitoring(_options: MonitoringOptions = {}): Promise<void> {
    return pending()
  }

  stopMonitoring(): Promise<void> {
    return pending()
  }

  on<T extends EGpuEventType>(_type: T, _listener: (event: EGpuEvent<T>) => void): () => void {
    return pending()
  }

  next<T extends EGpuEventType>(_type: T, _options: NextOptions<T> = {}): Promise<EGpuEvent<T>> {
    return pending()
  }

  events<T extends EGpuEventType = EGpuEventType>(_options: EventsOptions<T> = {}): AsyncIterable<EGpuEvent<T>> {
    return pending()
  }

  addGuest(_guest: Guest): () => void {
    return pending()
  }

  report(_event: UnstampedEvent): void {
    pending()
  }

  targets(_options: AbortOptions = {}): Promise<readonly ComputeTarget[]> {
    return pending()
  }

  openTarget(_targetId: string, _options: AbortOptions = {}): Promise<OpenTarget> {
    return pending()
  }

  planDisconnect(_id: string, _options: AbortOptions = {}): Promise<DisconnectPlan> {
    return pending()
  }

  safeDisconnect(_id: string, _options: DisconnectOptions = {}): Promise<DisconnectResult> {
    return pending()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
