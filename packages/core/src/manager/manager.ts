import type { AbortOptions } from '../abort.ts'
import { abandonable } from '../abort.ts'
import { systemClock } from '../clock.ts'
import type { Clock } from '../clock.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import { GpuDeviceRegistry } from '../registry/registry.ts'
import type { EGpuDevice } from '../types/device.ts'
import type { Enclosure } from '../types/enclosure.ts'
import type { EGpuEvent, EGpuEventType, UnstampedEvent } from '../types/events.ts'
import type { Finding } from '../types/finding.ts'
import { unknownHealth } from '../registry/health-score.ts'
import type { HealthScore } from '../types/health.ts'
import type { ComputeTarget, OpenTarget } from '../types/target.ts'
import { checkDriver, checkedMs, claimDrivers, releaseDrivers } from './checks.ts'
import { DeviceTracker } from './device-tracker.ts'
import type { DisconnectPlan, DisconnectResult } from './disconnect-result.ts'
import { DriverEvents } from './driver-events.ts'
import { DriverSession } from './driver-session.ts'
import type { DriverStatus } from './driver-status.ts'
import { EnclosureTable } from './enclosure-table.ts'
import { EventHub } from './event-hub.ts'
import type { TrackedDevice } from './fusion/tracked-device.ts'
import type { Guest } from './guest.ts'
import { MigrationBook } from './migration-book.ts'
import { Monitor } from './monitor.ts'
import type { DisconnectOptions, EGpuManagerOptions, EventsOptions, MonitoringOptions, NextOptions } from './options.ts'
import { checkOverrides } from './overrides.ts'
import { SafeDisconnect } from './safe-disconnect.ts'
import { Targets } from './targets.ts'

/**
 * Everything about the GPUs of this machine, from as many drivers as you hand over: what is there, what happens to it,
 * where work can run, and how to get a device off the bus without losing any.
 *
 * After `close()`, what it knew last can still be read; every call that would do something rejects with `EGPU_CLOSED`.
 */
export class EGpuManager implements AsyncDisposable {
  readonly clock: Clock
  /** Where each device is in its life, and how it got there. The manager makes the steps; read from it freely. */
  readonly registry: GpuDeviceRegistry
  readonly #driverTimeoutMs: number
  readonly #sessions: readonly DriverSession[]
  readonly #hub: EventHub
  readonly #enclosures: EnclosureTable = new EnclosureTable()
  readonly #devices: DeviceTracker
  readonly #events: DriverEvents
  readonly #guests: Set<Guest> = new Set()
  readonly #targets: Targets
  readonly #disconnects: SafeDisconnect
  readonly #migrations: MigrationBook
  readonly #monitor: Monitor
  readonly #closing: AbortController = new AbortController()
  #refreshing: Promise<void> = Promise.resolve()
  #external: { readonly of: readonly EGpuDevice[]; readonly devices: readonly EGpuDevice[] } | undefined
  #closed: Promise<void> | undefined

  /**
   * Probes and lists every driver; one that is unusable, broken or silent does not stop the others (`drivers` says how
   * each fares).
   *
   * Rejects with a `TypeError` for options that make no sense; with `EGPU_DRIVER_SPEC_VERSION`,
   * `EGPU_DRIVER_MISBEHAVED` or `EGPU_DRIVER_IN_USE` for a driver that no manager, or not this one, can work with; and
   * with `EGPU_DRIVER_UNAVAILABLE` when none of those given works here.
   */
  static async create(options: EGpuManagerOptions): Promise<EGpuManager> {
    const { drivers, overrides = [], signal, clock = systemClock, driverTimeoutMs = 10_000 } = options
    signal?.throwIfAborted()
    if (!Array.isArray(drivers)) throw new TypeError('create() needs { drivers: [...] }')
    checkedMs('driverTimeoutMs', driverTimeoutMs, 1)
    checkOverrides(overrides)
    for (const driver of drivers) checkDriver(driver)
    claimDrivers(drivers)
    const manager = new EGpuManager({ ...options, clock, overrides, driverTimeoutMs })
    try {
      await manager.#begin(signal)
      return manager
    } catch (error) {
      releaseDrivers(drivers)
      throw error
    }
  }

  private constructor(
    options: EGpuManagerOptions &
      Required<Pick<EGpuManagerOptions, 'overrides' | 'driverTimeoutMs'>> & { readonly clock: Clock },
  ) {
    const { clock, drivers, driverTimeoutMs } = options
    this.clock = clock
    this.#driverTimeoutMs = driverTimeoutMs as number
    this.registry = new GpuDeviceRegistry({ clock })
    this.#hub = new EventHub(clock)
    this.#devices = new DeviceTracker({
      clock,
      hub: this.#hub,
      registry: this.registry,
      enclosures: this.#enclosures,
      overrides: options.overrides ?? [],
    })
    this.#events = new DriverEvents(this.#hub, this.#devices, this.#enclosures)
    const shared = { clock, hub: this.#hub, events: this.#events, timeoutMs: this.#driverTimeoutMs }
    this.#sessions = drivers.map((driver, rank) => new DriverSession({ ...shared, driver, rank }))
    this.#targets = new Targets(clock, this.#sessions, this.#devices, this.registry)
    this.#disconnects = new SafeDisconnect(this.#hub, clock, this.#devices, this.#sessions, this.#guests)
    this.#migrations = new MigrationBook(this.#devices)
    this.#monitor = new Monitor(this.#sessions, this.#devices, clock)
  }

  /** Every GPU on the bus, external or not; one that is lost or wedged too, as long as it is listed. */
  get devices(): readonly EGpuDevice[] {
    return this.#devices.list
  }

  get externalDevices(): readonly EGpuDevice[] {
    const { devices } = this
    if (this.#external?.of !== devices) {
      const external = devices.filter(({ verdict }) => verdict.conclusion === 'external')
      this.#external = { of: devices, devices: Object.freeze(external) }
    }
    return this.#external.devices
  }

  get enclosures(): readonly Enclosure[] {
    return this.#enclosures.list
  }

  get findings(): readonly Finding[] {
    return this.#events.findings
  }

  /** How each driver fares, in the order they were handed over. */
  get drivers(): readonly DriverStatus[] {
    return this.#sessions.map(({ status }) => status)
  }

  /** The device as it is now; `undefined` when none with this id is on the bus. */
  find(id: string): EGpuDevice | undefined {
    const device = this.#devices.tracked(id)
    return device?.present === true ? this.#devices.snapshot(device) : undefined
  }

  /** Throws `EGPU_DEVICE_NOT_FOUND` when no device with this id is on the bus. */
  get(id: string): EGpuDevice {
    return this.#devices.snapshot(this.#tracked(id))
  }

  /** How well the device is, as far as its drivers could tell since monitoring began. Throws like `get`. */
  health(id: string): HealthScore {
    return this.#tracked(id).health?.current(this.clock.now()) ?? unknownHealth
  }

  /** Has every driver look again, and tells the differences as events. Does not wake anything. */
  async refresh({ signal }: AbortOptions = {}): Promise<void> {
    this.#assertOpen()
    signal?.throwIfAborted()
    // One after another, so that a slow look cannot overwrite a newer one.
    const before = this.#refreshing
    const closing = this.#closing.signal
    this.#refreshing = before.then(async () => {
      if (closing.aborted) return
      const asked = this.#sessions.filter((session) => session.asks)
      await Promise.all(asked.map((session) => session.refresh({ signal: closing }).catch(() => undefined)))
    })
    await abandonable(abandonable(this.#refreshing, closing), signal)
  }

  /**
   * Starts to watch, and to sample the health of every device that is awake. Resolves once every driver has delivered
   * its first look, or has failed or overrun its time; differences to what was known come as events before that. A
   * second call while it runs joins the first. An abort of `signal` stops it, then or later.
   */
  async startMonitoring({ signal, healthIntervalMs = 10_000 }: MonitoringOptions = {}): Promise<void> {
    if (healthIntervalMs !== 0) checkedMs('healthIntervalMs', healthIntervalMs, 1)
    this.#assertOpen()
    signal?.throwIfAborted()
    await abandonable(this.#monitor.start({ healthIntervalMs, signal }), signal)
    this.#assertOpen()
  }

  /** Whether it watches now: between `startMonitoring` and whatever stops it. */
  get isMonitoring(): boolean {
    return this.#monitor.isOn
  }

  /** Ends every watch. What is known stays as it is, and `startMonitoring` may be called again. */
  stopMonitoring(): Promise<void> {
    return this.#monitor.stop()
  }

  /**
   * Calls `listener` for every event of this type, in order, until the returned function is called. A listener that
   * throws or rejects disturbs nobody; it shows up as `listener-failed`.
   */
  on<T extends EGpuEventType>(type: T, listener: (event: EGpuEvent<T>) => unknown): () => void {
    this.#assertOpen()
    return this.#hub.on(type, listener)
  }

  /** The next event of this type. Rejects with the abort reason, or with `EGPU_CLOSED` when the manager closes first. */
  async next<T extends EGpuEventType>(type: T, options: NextOptions<T> = {}): Promise<EGpuEvent<T>> {
    this.#assertOpen()
    return await this.#hub.next(type, options)
  }

  /**
   * All events from the call on, also those that happen before the first is read. Ends when `signal` aborts, when the
   * loop is left, or, after the last event was read, when the manager closes.
   */
  events<T extends EGpuEventType = EGpuEventType>(options: EventsOptions<T> = {}): AsyncIterableIterator<EGpuEvent<T>> {
    this.#assertOpen()
    return this.#hub.events(options)
  }

  /** Has `guest` asked to leave before a device is disconnected. Returns the function that takes it off the list. */
  addGuest(guest: Guest): () => void {
    this.#assertOpen()
    this.#guests.add(guest)
    return () => {
      this.#guests.delete(guest)
    }
  }

  /** Publishes an event of your own, such as a migration, on the same stream and with the same clock. */
  report(event: UnstampedEvent): void {
    this.#assertOpen()
    this.#migrations.note(event)
    this.#hub.emit({ ...event })
  }

  /**
   * Where work can run now, over all drivers. `id` is `<driver>/<the driver's id>`, `deviceId` one of `devices`. Opens
   * and wakes nothing. A driver that fails to answer is reported and left out.
   */
  async targets({ signal }: AbortOptions = {}): Promise<readonly ComputeTarget[]> {
    this.#assertOpen()
    return await this.#targets.list({ signal })
  }

  /**
   * Opens a target of `targets()`. `epoch` is the incarnation of the device it belongs to; when the target is lost the
   * device is marked so, its epoch rises and `lost` is told before the target's own `lost` resolves. Closing the
   * manager closes it.
   *
   * Rejects with `EGPU_DEVICE_NOT_FOUND` for a target that is not there, and with `EGPU_DEVICE_LOST` when its device is
   * dead or on its way out.
   */
  async openTarget(targetId: string, { signal }: AbortOptions = {}): Promise<OpenTarget> {
    this.#assertOpen()
    signal?.throwIfAborted()
    const target = await this.#targets.open(targetId, { signal })
    if (this.#closed === undefined) return target
    await target.close()
    throw closedError()
  }

  /**
   * What `safeDisconnect` would do. Changes nothing. Rejects with `EGPU_DEVICE_NOT_FOUND`, and with
   * `EGPU_NOT_SUPPORTED` when none of the device's drivers can remove it.
   */
  async planDisconnect(id: string, { signal }: AbortOptions = {}): Promise<DisconnectPlan> {
    this.#assertOpen()
    return await this.#disconnects.plan(this.#tracked(id), signal)
  }

  /**
   * Has all guests leave, then the driver take the device off the bus. The result says either that the cable may be
   * pulled, or who and what is in the way; in that case the guests are told to stay and the device is as it was. Calls
   * for one device share one run, which is called off when the last caller aborts. Rejects like `planDisconnect`.
   */
  async safeDisconnect(id: string, options: DisconnectOptions = {}): Promise<DisconnectResult> {
    const { deadlineMs = 30_000, signal, onStep } = options
    checkedMs('deadlineMs', deadlineMs, 1)
    this.#assertOpen()
    return await this.#disconnects.run(this.#tracked(id), { deadlineMs, signal, onStep })
  }

  /** Ends everything: watches, waits, streams, open targets, the drivers. Calling it twice is fine. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #begin(signal: AbortSignal | undefined): Promise<void> {
    const opened = await Promise.all(
      this.#sessions.map(async (session) => ({ session, look: await session.open({ signal }) })),
    )
    signal?.throwIfAborted()
    const looks = opened.flatMap(({ session, look }) => (look === undefined ? [] : [{ source: session.source, look }]))
    if (looks.length === 0 && this.#sessions.length > 0) {
      const reasons = this.drivers.map(({ name, reason }) => `${name}: ${reason}`)
      const cause = this.drivers.find(({ error }) => error !== undefined)?.error
      throw new EGpuError(EGpuErrorCode.DriverUnavailable, `no usable driver\n  ${reasons.join('\n  ')}`, { cause })
    }
    const violations = this.#events.begin(looks)
    for (const { source } of looks) {
      const violation = violations.get(source)
      if (violation !== undefined) this.#sessions[source.rank]?.violated(violation)
    }
  }

  async #close(): Promise<void> {
    const reason = closedError()
    this.#closing.abort(reason)
    this.#disconnects.close(reason)
    await this.#monitor.stop()
    await this.#targets.close()
    await Promise.all(
      this.#sessions.map(async (session) => {
        try {
          await session.call('close', () => session.driver.close(), undefined)
        } catch (error) {
          session.fail(error, true)
        }
      }),
    )
    this.#hub.close(reason)
    releaseDrivers(this.#sessions.map(({ driver }) => driver))
  }

  #tracked(id: string): TrackedDevice {
    const device = this.#devices.tracked(id)
    if (device?.present === true) return device
    const text = device === undefined ? `no device has the id ${id}` : `device ${id} is not connected`
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, `${text}; manager.devices lists those that are`, { deviceId: id })
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw closedError()
  }
}

function closedError(): EGpuError {
  return new EGpuError(EGpuErrorCode.Closed, 'this EGpuManager is closed; create a new one')
}
