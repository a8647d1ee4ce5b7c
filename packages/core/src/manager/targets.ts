import type { AbortOptions } from '../abort.ts'
import { abandonable } from '../abort.ts'
import type { Clock } from '../clock.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import type { GpuDeviceRegistry } from '../registry/registry.ts'
import { GpuDeviceState } from '../registry/states.ts'
import { deadStates } from '../registry/transitions.ts'
import type { ComputeTarget, OpenTarget, TargetLoss } from '../types/target.ts'
import type { Verdict } from '../types/verdict.ts'
import type { DeviceTracker } from './device-tracker.ts'
import type { DriverSession } from './driver-session.ts'
import type { TrackedDevice } from './fusion/tracked-device.ts'

/** Where work can run, over all drivers, and what is open there. */
export class Targets {
  readonly #clock: Clock
  readonly #sessions: readonly DriverSession[]
  readonly #devices: DeviceTracker
  readonly #registry: GpuDeviceRegistry
  readonly #open = new Map<OpenTarget, DriverSession>()

  constructor(clock: Clock, sessions: readonly DriverSession[], devices: DeviceTracker, registry: GpuDeviceRegistry) {
    this.#clock = clock
    this.#sessions = sessions
    this.#devices = devices
    this.#registry = registry
  }

  /** A driver that fails here is reported, and the targets of the others come all the same. */
  async list({ signal }: AbortOptions): Promise<readonly ComputeTarget[]> {
    const lists = await Promise.all(
      this.#sessions.map(async (session): Promise<readonly ComputeTarget[]> => {
        const { runtime } = session.driver
        if (runtime === undefined || !session.asks) return []
        try {
          const targets = await session.call('targets', (inner) => runtime.targets({ signal: inner }), signal)
          return targets.map((target) => this.#mapped(session, target))
        } catch (error) {
          signal?.throwIfAborted()
          session.fail(error, false)
          return []
        }
      }),
    )
    return lists.flat()
  }

  async open(targetId: string, { signal }: AbortOptions): Promise<OpenTarget> {
    const slash = targetId.indexOf('/')
    const session = this.#sessions.find(({ name }) => name === targetId.slice(0, slash))
    const runtime = session?.driver.runtime
    if (slash === -1 || session === undefined || runtime === undefined) {
      throw new EGpuError(
        EGpuErrorCode.DeviceNotFound,
        `no driver has a target ${targetId}; manager.targets() lists them all`,
      )
    }
    const opening = runtime.open(targetId.slice(slash + 1), { signal })
    try {
      return await this.#keep(session, await abandonable(opening, signal))
    } catch (error) {
      // It may still open after the caller has gone, and nobody else would close it.
      if (signal?.aborted === true) opening.then((late) => late.close()).catch(() => undefined)
      throw error
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map(([target, session]) => this.#discard(session, target)))
  }

  /** Closing a target on a device that hangs may hang too, and must not hold up whoever wanted to be rid of it. */
  async #discard(session: DriverSession, target: OpenTarget): Promise<void> {
    try {
      await session.call(`close of target ${target.target.id}`, () => target.close(), undefined)
    } catch (error) {
      session.fail(error, false)
    }
  }

  #mapped(session: DriverSession, target: ComputeTarget): ComputeTarget {
    const id = `${session.name}/${target.id}`
    const device = this.#deviceOf(session, target)
    if (device === undefined) return { ...target, id, deviceId: undefined }
    const { verdict, link } = this.#devices.snapshot(device)
    return {
      ...target,
      id,
      deviceId: device.id,
      // A runtime does not know about cables.
      removable: verdict.conclusion === 'external' || (target.removable ?? knownFixed(verdict.conclusion)),
      linkGBps: target.linkGBps ?? link?.measuredGBps ?? link?.effectiveGBps,
    }
  }

  #deviceOf(session: DriverSession, { deviceId }: ComputeTarget): TrackedDevice | undefined {
    return deviceId === undefined ? undefined : this.#devices.sighting(session.source, deviceId)?.device
  }

  async #keep(session: DriverSession, inner: OpenTarget): Promise<OpenTarget> {
    const device = this.#deviceOf(session, inner.target)
    if (device !== undefined) {
      const state = this.#devices.state(device)
      if (device.ejecting || state === GpuDeviceState.Leaving || deadStates.has(state)) {
        await this.#discard(session, inner)
        throw new EGpuError(
          EGpuErrorCode.DeviceLost,
          `device ${device.id} is ${device.ejecting ? 'being disconnected' : state}, so ${session.name}/${inner.target.id} cannot be used; choose another target`,
          { driver: session.name, deviceId: device.id },
        )
      }
      this.#use(device.id, 1)
    }
    const epoch = device === undefined ? inner.epoch : this.#registry.epoch(device.id)
    let open = true
    const closed = (): void => {
      if (!open) return
      open = false
      this.#open.delete(outer)
      if (device !== undefined) this.#use(device.id, -1)
    }
    const rejected = (error: unknown): TargetLoss => ({
      reason: 'unknown',
      message: `its driver failed to tell of its end: ${error instanceof Error ? error.message : typeof error}`,
      atMs: this.#clock.now(),
    })
    const lost = inner.lost.catch(rejected).then((loss) => {
      if (device !== undefined && open) this.#lost(session, inner.target, device.id, epoch, loss)
      closed()
      return loss
    })
    const close = async (): Promise<void> => {
      closed()
      await inner.close()
    }
    const target = this.#mapped(session, inner.target)
    const outer: OpenTarget = { target, epoch, handle: inner.handle, lost, close, [Symbol.asyncDispose]: close }
    this.#open.set(outer, session)
    return outer
  }

  #use(deviceId: string, by: 1 | -1): void {
    const device = this.#devices.tracked(deviceId)
    if (device === undefined) return
    device.openTargets += by
    this.#devices.usageChanged(device)
  }

  /** A loss that the registry has counted already, or that the owner brought about, is none. */
  #lost(session: DriverSession, target: ComputeTarget, deviceId: string, epoch: number, loss: TargetLoss): void {
    if (loss.reason === 'destroyed' || this.#registry.epoch(deviceId) !== epoch || target.deviceId === undefined) return
    this.#devices.die(session.source, target.deviceId, 'lost', `${session.name}: ${loss.message}`)
  }
}

/** What a verdict says of a target whose runtime does not know; nothing, as long as it is unknown. */
function knownFixed(conclusion: Verdict['conclusion']): false | undefined {
  return conclusion === 'internal' ? false : undefined
}
