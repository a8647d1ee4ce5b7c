import type { Clock } from '../clock.ts'
import type { HealthCapability } from '../driver/driver.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import { GpuDeviceState } from '../registry/states.ts'
import { deadStates } from '../registry/transitions.ts'
import type { DeviceTracker } from './device-tracker.ts'
import type { DriverSession } from './driver-session.ts'
import type { Sighting } from './fusion/tracked-device.ts'

/** Samples in flight per driver: enough to hide a slow device, few enough not to flood a machine of many. */
const parallelSamples = 16

/** Asks the drivers how the devices are, those that are awake and alive. */
export class HealthSampler {
  readonly #clock: Clock
  readonly #devices: DeviceTracker
  /** Not settled yet, given up on included: asking a device that hangs again would hang again. */
  readonly #pending = new Set<Sighting>()
  /** Failed the last time, and told so. */
  readonly #failing = new WeakSet<Sighting>()

  constructor(clock: Clock, devices: DeviceTracker) {
    this.#clock = clock
    this.#devices = devices
  }

  /** Until `signal` aborts. A round does not wait for the one before, so one slow device holds nobody up. */
  async run(sessions: readonly DriverSession[], intervalMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const session of sessions) void this.#round(session, signal)
      await this.#clock.sleep(intervalMs, { signal }).catch(() => undefined)
    }
  }

  async #round(session: DriverSession, signal: AbortSignal): Promise<void> {
    const { health } = session.driver
    if (health === undefined || !session.asks) return
    const due = this.#devices.slots(session.source).values()
    const work = async (): Promise<void> => {
      for (const slot of due) {
        if (signal.aborted) return
        const sighting = this.#devices.sighting(session.source, slot)
        if (sighting !== undefined && this.#mayAsk(sighting)) await this.#sample(session, health, sighting, signal)
      }
    }
    await Promise.all(Array.from({ length: parallelSamples }, work))
  }

  #mayAsk(sighting: Sighting): boolean {
    const { device } = sighting
    if (device === undefined || this.#pending.has(sighting)) return false
    const state = this.#devices.state(device)
    const { facts } = device
    return !deadStates.has(state) && state !== GpuDeviceState.Leaving && facts?.powerState !== 'suspended'
  }

  async #sample(
    session: DriverSession,
    health: HealthCapability,
    sighting: Sighting,
    signal: AbortSignal,
  ): Promise<void> {
    this.#pending.add(sighting)
    const settled = (): boolean => this.#pending.delete(sighting)
    const work = async (inner: AbortSignal): ReturnType<HealthCapability['sample']> => {
      try {
        return await health.sample(sighting.observation.key, { signal: inner })
      } finally {
        settled()
      }
    }
    try {
      const sample = await session.call(`health.sample of ${sighting.observation.key}`, work, signal)
      this.#failing.delete(sighting)
      this.#devices.sampled(sighting, sample)
    } catch (error) {
      if (!signal.aborted) this.#failed(session, sighting, error)
    }
  }

  #failed(session: DriverSession, sighting: Sighting, error: unknown): void {
    if (EGpuError.is(error, EGpuErrorCode.DeviceLost)) {
      this.#devices.die(session.source, sighting.slot, 'lost', error.message)
      return
    }
    // Its departure is on the way, or it has just been told.
    if (EGpuError.is(error, EGpuErrorCode.DeviceNotFound) || this.#failing.has(sighting)) return
    this.#failing.add(sighting)
    session.fail(error, false)
  }
}
