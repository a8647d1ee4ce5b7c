import { abandonable } from '../abort.ts'
import type { AbortOptions } from '../abort.ts'
import type { Clock } from '../clock.ts'
import type { SafeRemovalCapability, PlanOutcome, SystemPlan } from '../driver/system-change.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import type { EGpuDevice } from '../types/device.ts'
import { withDeadline } from './deadline.ts'
import type { DeviceTracker } from './device-tracker.ts'
import type { DisconnectPlan, DisconnectResult, GuestVeto } from './disconnect-result.ts'
import type { DriverSession } from './driver-session.ts'
import type { EventHub } from './event-hub.ts'
import type { TrackedDevice } from './fusion/tracked-device.ts'
import type { Guest } from './guest.ts'
import type { DisconnectOptions } from './options.ts'

interface Steps extends Pick<DisconnectOptions, 'onStep'> {
  readonly deadlineMs: number
}

interface Remover {
  readonly session: DriverSession
  readonly removal: SafeRemovalCapability
  readonly key: string
}

interface SharedRun {
  readonly result: Promise<DisconnectResult>
  readonly controller: AbortController
  readonly listeners: Set<NonNullable<DisconnectOptions['onStep']>>
  waiting: number
}

const nothing = { vetoes: [], holders: [], refusals: [], failedStep: undefined, undone: [] } as const

/** Gets everybody off a device, then has its driver take it off the bus; or says exactly who is in the way. */
export class SafeDisconnect {
  readonly #hub: EventHub
  readonly #clock: Clock
  readonly #devices: DeviceTracker
  readonly #sessions: readonly DriverSession[]
  readonly #guests: ReadonlySet<Guest>
  readonly #runs = new Map<TrackedDevice, SharedRun>()

  constructor(
    hub: EventHub,
    clock: Clock,
    devices: DeviceTracker,
    sessions: readonly DriverSession[],
    guests: ReadonlySet<Guest>,
  ) {
    this.#hub = hub
    this.#clock = clock
    this.#devices = devices
    this.#sessions = sessions
    this.#guests = guests
  }

  async plan(device: TrackedDevice, signal: AbortSignal | undefined): Promise<DisconnectPlan> {
    const remover = this.#remover(device)
    const removal = await this.#plan(remover, signal)
    const guests = [...this.#guests].map(({ name }) => name)
    return { device: this.#devices.snapshot(device), driver: remover.session.name, guests, removal }
  }

  /** Callers of one device share one run; it is called off when the last of them has gone. */
  async run(device: TrackedDevice, { signal, onStep, deadlineMs }: Steps & AbortOptions): Promise<DisconnectResult> {
    signal?.throwIfAborted()
    const run = await this.#joinable(device, deadlineMs, signal)
    if (onStep !== undefined) run.listeners.add(onStep)
    run.waiting += 1
    return new Promise<DisconnectResult>((resolve, reject) => {
      const done = (): void => {
        signal?.removeEventListener('abort', leave)
        run.waiting -= 1
        if (onStep !== undefined) run.listeners.delete(onStep)
      }
      const leave = (): void => {
        done()
        if (run.waiting === 0) run.controller.abort(signal?.reason)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', leave, { once: true })
      run.result.then(resolve, reject).finally(() => {
        if (signal?.aborted !== true) done()
      })
    })
  }

  /** Calls off what is running. */
  close(reason: unknown): void {
    for (const { controller } of this.#runs.values()) controller.abort(reason)
  }

  /** The run in progress, or a new one; a run that is being called off ends first. */
  async #joinable(device: TrackedDevice, deadlineMs: number, signal: AbortSignal | undefined): Promise<SharedRun> {
    for (;;) {
      const run = this.#runs.get(device)
      if (run === undefined) return this.#start(device, deadlineMs)
      if (!run.controller.signal.aborted) return run
      const ended = run.result.then(
        () => undefined,
        () => undefined,
      )
      await abandonable(ended, signal)
    }
  }

  #start(device: TrackedDevice, deadlineMs: number): SharedRun {
    const remover = this.#remover(device)
    const controller = new AbortController()
    const listeners: SharedRun['listeners'] = new Set()
    const onStep: Steps['onStep'] = (step, status) => {
      for (const listener of listeners) {
        try {
          listener(step, status)
        } catch (error) {
          // It only watches: the removal may not stop half-way for it.
          this.#hub.emit({ type: 'listener-failed', event: 'onStep of safeDisconnect()', error })
        }
      }
    }
    const result = this.#disconnect(device, remover, controller.signal, { deadlineMs, onStep }).finally(() => {
      this.#runs.delete(device)
    })
    // Every caller may have gone by the time it ends.
    result.catch(() => undefined)
    const run: SharedRun = { result, controller, listeners, waiting: 0 }
    this.#runs.set(device, run)
    return run
  }

  #remover(device: TrackedDevice): Remover {
    for (const { source, observation } of device.sightings) {
      const session = this.#sessions.find((one) => one.source === source)
      const removal = session?.driver.safeRemoval
      if (session !== undefined && removal !== undefined) return { session, removal, key: observation.key }
    }
    const drivers = device.sightings.map(({ source }) => source.name).join(', ')
    throw new EGpuError(
      EGpuErrorCode.NotSupported,
      `none of the drivers that see device ${device.id} (${drivers}) can remove it safely; stop what uses it and shut down, or ask your system's own eject`,
      { deviceId: device.id },
    )
  }

  #plan({ session, removal, key }: Remover, signal: AbortSignal | undefined): Promise<SystemPlan> {
    return session.call('safeRemoval.plan', (inner) => removal.plan(key, { signal: inner }), signal)
  }

  async #disconnect(
    device: TrackedDevice,
    remover: Remover,
    signal: AbortSignal,
    steps: Steps,
  ): Promise<DisconnectResult> {
    const snapshot = (): EGpuDevice => this.#devices.snapshot(device)
    // What cannot work at all is found out before anybody is disturbed.
    const ahead = await this.#plan(remover, signal)
    if (ahead.refusals.length > 0) return refused(snapshot(), ahead)
    device.ejecting = true
    this.#devices.usageChanged(device)
    let safe = false
    const left: Guest[] = []
    try {
      const { moved, vetoes } = await this.#askGuests(snapshot(), left, signal, steps.deadlineMs)
      if (vetoes.length > 0) {
        const names = vetoes.map(({ guest, reason }) => `${guest} (${reason})`).join(', ')
        return { ...nothing, safeToUnplug: false, device: snapshot(), reason: `still held by ${names}`, vetoes }
      }
      // The guests are gone, so who holds it now really is in the way.
      const plan = await this.#plan(remover, signal)
      if (plan.refusals.length > 0 || plan.holders.length > 0) return refused(snapshot(), plan)
      this.#devices.announceLeaving(device, 'safe disconnect', 'a safe disconnect was asked for')
      device.removing = true
      const outcome = await this.#removal(remover, plan, signal, steps)
      if (!outcome.done) return failed(snapshot(), outcome)
      safe = true
      this.#devices.ejected(device, 'a safe disconnect took it off the bus')
      return { safeToUnplug: true, device: snapshot(), moved, notes: plan.notes }
    } finally {
      device.ejecting = false
      device.removing = false
      if (!safe) {
        if (device.leavingBy === 'safe disconnect') this.#devices.callOff(device)
        else this.#devices.usageChanged(device)
        for (const guest of left) void this.#stay(guest, snapshot())
      }
    }
  }

  /** All at once, each with the same deadline. Fills `left` as they go, so that they can be called back. */
  async #askGuests(
    device: EGpuDevice,
    left: Guest[],
    signal: AbortSignal,
    deadlineMs: number,
  ): Promise<{ moved: string[]; vetoes: GuestVeto[] }> {
    const moved: string[] = []
    const vetoes: GuestVeto[] = []
    const late = (): Error => new Error(`has not left within ${deadlineMs} ms`)
    await Promise.all(
      [...this.#guests].map(async (guest) => {
        try {
          const answer = await withDeadline((inner) => guest.leave(device, { signal: inner, deadlineMs }), {
            ms: deadlineMs,
            clock: this.#clock,
            signal,
            late,
          })
          if (answer.left) {
            left.push(guest)
            moved.push(...answer.moved)
          } else vetoes.push({ guest: guest.name, reason: answer.reason })
        } catch (error) {
          vetoes.push({ guest: guest.name, reason: error instanceof Error ? error.message : String(error) })
        }
      }),
    )
    signal.throwIfAborted()
    return { moved, vetoes }
  }

  async #stay(guest: Guest, device: EGpuDevice): Promise<void> {
    try {
      await guest.stay?.(device)
    } catch (error) {
      this.#hub.emit({ type: 'listener-failed', event: `stay of guest ${guest.name}`, error })
    }
  }

  /** From here on the machine is being changed, so an abort is passed on and the driver's answer still awaited. */
  async #removal(
    { session, removal }: Remover,
    plan: SystemPlan,
    signal: AbortSignal,
    steps: Steps,
  ): Promise<PlanOutcome> {
    const { deadlineMs, onStep } = steps
    const late = (): Error =>
      new Error(`driver ${session.name} has not finished within ${deadlineMs} ms; leave the cable in until it has`)
    try {
      return await withDeadline((inner) => removal.run(plan, { signal: AbortSignal.any([inner, signal]), onStep }), {
        ms: deadlineMs,
        clock: this.#clock,
        signal: undefined,
        late,
      })
    } catch (error) {
      signal.throwIfAborted()
      const reason = error instanceof Error ? error.message : String(error)
      return { done: false, failedStep: undefined, reason, undone: [], holders: [] }
    }
  }
}

function refused(device: EGpuDevice, { refusals, holders }: SystemPlan): DisconnectResult {
  const processes = holders.map(({ pid, name, holds }) => `${name ?? 'process'} (pid ${pid}) holds ${holds}`)
  return { ...nothing, safeToUnplug: false, device, reason: [...refusals, ...processes].join('; '), refusals, holders }
}

function failed(device: EGpuDevice, outcome: PlanOutcome & { readonly done: false }): DisconnectResult {
  const { reason, failedStep, undone, holders } = outcome
  return { ...nothing, safeToUnplug: false, device, reason, failedStep, undone, holders }
}
