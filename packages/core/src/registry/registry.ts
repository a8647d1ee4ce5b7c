import { systemClock } from '../clock.ts'
import type { Clock } from '../clock.ts'
import { EGpuError, EGpuErrorCode } from '../error.ts'
import { GpuDeviceState } from './states.ts'
import { epochStates, transitions } from './transitions.ts'

/** One step in a device's life. `from` is absent for the first. */
export interface StateChange {
  readonly from?: GpuDeviceState | undefined
  readonly to: GpuDeviceState
  /** On the registry's clock. */
  readonly atMs: number
  readonly reason: string
  /** Incarnation after the step. */
  readonly epoch: number
}

/** What the registry knows about one device. A snapshot. */
export interface RegistryEntry {
  readonly id: string
  readonly state: GpuDeviceState
  /** Starts at 1; rises on `lost`, `wedged` and `returned`. */
  readonly epoch: number
  /** When it came into this state. */
  readonly sinceMs: number
  /** Why it came into this state. */
  readonly reason: string
}

export interface GpuDeviceRegistryOptions {
  readonly clock?: Clock | undefined
  /** Steps kept per device, the newest. Default 100: a day of a cable that flaps every quarter of an hour. */
  readonly historyLimit?: number | undefined
}

interface Row {
  readonly id: string
  state: GpuDeviceState
  epoch: number
  readonly history: StateChange[]
}

/**
 * Where each device is in its life. Steps follow the table in `transitions.ts`; anything else is refused with
 * `EGPU_ILLEGAL_TRANSITION`. Works by itself; a manager keeps one for its devices.
 */
export class GpuDeviceRegistry {
  readonly #clock: Clock
  readonly #historyLimit: number
  readonly #rows = new Map<string, Row>()
  readonly #idsByState = new Map<GpuDeviceState, Set<string>>()

  constructor(options: GpuDeviceRegistryOptions = {}) {
    const { clock = systemClock, historyLimit = 100 } = options
    if (!Number.isInteger(historyLimit) || historyLimit < 1) {
      throw new TypeError(`historyLimit must be a whole number of at least 1, not ${historyLimit}`)
    }
    this.#clock = clock
    this.#historyLimit = historyLimit
  }

  get size(): number {
    return this.#rows.size
  }

  /** Starts a life as `discovered`. Throws a `TypeError` for an id that is known already. */
  add(id: string, reason: string): RegistryEntry {
    if (this.#rows.has(id)) throw new TypeError(`device ${id} is in the registry already; use transition()`)
    const row: Row = { id, state: GpuDeviceState.Discovered, epoch: 1, history: [] }
    this.#rows.set(id, row)
    this.#enter(row, undefined, GpuDeviceState.Discovered, reason)
    return entryOf(row)
  }

  /**
   * Takes one step. Rejects a step the table does not have with `EGPU_ILLEGAL_TRANSITION`, an unknown id with
   * `EGPU_DEVICE_NOT_FOUND`; the device stays as it was.
   */
  transition(id: string, to: GpuDeviceState, reason: string): RegistryEntry {
    const row = this.#row(id)
    const { state: from } = row
    if (!transitions[from].includes(to)) {
      throw new EGpuError(
        EGpuErrorCode.IllegalTransition,
        `device ${id} cannot go from ${from} to ${to} (${reason}); from ${from} it can go to ${transitions[from].join(', ')}`,
        { deviceId: id },
      )
    }
    this.#idsByState.get(from)?.delete(id)
    if (epochStates.has(to)) row.epoch += 1
    row.state = to
    this.#enter(row, from, to, reason)
    return entryOf(row)
  }

  /** Whether the table has the step. Throws `EGPU_DEVICE_NOT_FOUND` for an unknown id. */
  canTransition(id: string, to: GpuDeviceState): boolean {
    return transitions[this.#row(id).state].includes(to)
  }

  has(id: string): boolean {
    return this.#rows.has(id)
  }

  find(id: string): RegistryEntry | undefined {
    const row = this.#rows.get(id)
    return row === undefined ? undefined : entryOf(row)
  }

  /** Throws `EGPU_DEVICE_NOT_FOUND` for an unknown id, like everything below that takes one. */
  get(id: string): RegistryEntry {
    return entryOf(this.#row(id))
  }

  state(id: string): GpuDeviceState {
    return this.#row(id).state
  }

  epoch(id: string): number {
    return this.#row(id).epoch
  }

  /** Oldest first, at most `historyLimit` steps. */
  history(id: string): readonly StateChange[] {
    return [...this.#row(id).history]
  }

  /** Ids of all devices, or of those in one of `states`. */
  ids(...states: readonly GpuDeviceState[]): readonly string[] {
    if (states.length === 0) return [...this.#rows.keys()]
    return states.flatMap((state) => [...(this.#idsByState.get(state) ?? [])])
  }

  count(state: GpuDeviceState): number {
    return this.#idsByState.get(state)?.size ?? 0
  }

  /** Refuses a handle or a result of an earlier incarnation with `EGPU_STALE_EPOCH`. */
  assertEpoch(id: string, epoch: number): void {
    const now = this.#row(id).epoch
    if (epoch === now) return
    throw new EGpuError(
      EGpuErrorCode.StaleEpoch,
      `this belongs to epoch ${epoch} of device ${id}, which is in epoch ${now}; open the device again`,
      { deviceId: id },
    )
  }

  #row(id: string): Row {
    const row = this.#rows.get(id)
    if (row !== undefined) return row
    throw new EGpuError(EGpuErrorCode.DeviceNotFound, `no device has the id ${id}`, { deviceId: id })
  }

  #enter(row: Row, from: GpuDeviceState | undefined, to: GpuDeviceState, reason: string): void {
    let ids = this.#idsByState.get(to)
    if (ids === undefined) this.#idsByState.set(to, (ids = new Set()))
    ids.add(row.id)
    row.history.push({ from, to, atMs: this.#clock.now(), reason, epoch: row.epoch })
    if (row.history.length > this.#historyLimit) row.history.shift()
  }
}

function entryOf(row: Row): RegistryEntry {
  const last = row.history.at(-1) as StateChange
  return { id: row.id, state: row.state, epoch: row.epoch, sinceMs: last.atMs, reason: last.reason }
}
