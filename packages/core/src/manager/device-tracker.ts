import type { Clock } from '../clock.ts'
import type { DeviceObservation } from '../driver/observation.ts'
import { HealthTracker } from '../registry/health-tracker.ts'
import type { GpuDeviceRegistry } from '../registry/registry.ts'
import { GpuDeviceState } from '../registry/states.ts'
import { deadStates } from '../registry/transitions.ts'
import type { EGpuDevice } from '../types/device.ts'
import type { HealthSample } from '../types/health.ts'
import { deviceSnapshot } from './device-snapshot.ts'
import type { EnclosureTable } from './enclosure-table.ts'
import type { EventHub } from './event-hub.ts'
import { factChanges } from './fact-changes.ts'
import { Fuser } from './fusion/fuser.ts'
import type { Arrival } from './fusion/fuser.ts'
import { mergeSightings } from './fusion/merge.ts'
import type { Facts } from './fusion/merge.ts'
import type { Sighting, Source, TrackedDevice } from './fusion/tracked-device.ts'
import type { DeviceOverride } from './options.ts'
import { applyOverrides } from './overrides.ts'
import { settledReason, settledState } from './settled-state.ts'

export interface DeviceTrackerOptions {
  readonly clock: Clock
  readonly hub: EventHub
  readonly registry: GpuDeviceRegistry
  readonly enclosures: EnclosureTable
  readonly overrides: readonly DeviceOverride[]
}

/** Turns what drivers say about devices into steps of the registry and events of the application. */
export class DeviceTracker {
  readonly #clock: Clock
  readonly #hub: EventHub
  readonly #registry: GpuDeviceRegistry
  readonly #enclosures: EnclosureTable
  readonly #overrides: readonly DeviceOverride[]
  readonly #fuser: Fuser = new Fuser((gone, into) => this.#absorbed(gone, into))
  readonly #byEnclosure = new Map<string, Set<TrackedDevice>>()
  #list: readonly EGpuDevice[] | undefined

  constructor({ clock, hub, registry, enclosures, overrides }: DeviceTrackerOptions) {
    this.#clock = clock
    this.#hub = hub
    this.#registry = registry
    this.#enclosures = enclosures
    this.#overrides = overrides
  }

  /** Every device on the bus, dead ones that are still listed included. Built when somebody asks. */
  get list(): readonly EGpuDevice[] {
    return (this.#list ??= Object.freeze(Array.from(this.#fuser.present, (device) => this.snapshot(device))))
  }

  /** By its id, or the id it had before it turned out to be another one; also when it has left. */
  tracked(id: string): TrackedDevice | undefined {
    return this.#fuser.byId(id)
  }

  sighting(source: Source, slot: string): Sighting | undefined {
    return this.#fuser.sighting(source.name, slot)
  }

  slots(source: Source): readonly string[] {
    return this.#fuser.slots(source.name)
  }

  knewOnce(source: Source, slot: string): boolean {
    return this.#fuser.knewOnce(source.name, slot)
  }

  snapshot(device: TrackedDevice): EGpuDevice {
    return (device.snapshot ??= deviceSnapshot(device, this.#enclosures))
  }

  state({ state }: TrackedDevice): GpuDeviceState {
    return state as GpuDeviceState
  }

  /**
   * Takes observations that were made together. `afresh` is a look at everything: it also calls a departure off that
   * the driver had announced, which an observation on the way out does not.
   */
  observe(arrivals: readonly { readonly source: Source; readonly arrival: Arrival }[], afresh: boolean): void {
    for (const { source, arrival } of arrivals) {
      if (this.#fuser.isSwap(source.name, arrival)) {
        this.remove(source, arrival.slot, false, 'another card answers in its place')
      }
    }
    const touched = this.#fuser.observe(arrivals)
    for (const { source, arrival } of arrivals) {
      const { stage } = arrival.observation
      if (stage !== 'ready' && stage !== 'present') continue
      this.#fuser.sighting(source.name, arrival.slot)?.device?.revive(source.name)
    }
    const speakers = new Set(arrivals.map(({ source }) => source.name))
    for (const device of touched) {
      const spokeUp = device.leavingBy !== undefined && speakers.has(device.leavingBy)
      this.#refresh(device, afresh && spokeUp)
    }
  }

  /** The same for a single observation; the short way for one about a device that is known and stays who it is. */
  observeOne(source: Source, observation: DeviceObservation, known: Sighting | undefined): void {
    const device = known === undefined ? undefined : this.#fuser.update(known, observation)
    if (device === undefined) {
      this.observe([{ source, arrival: { slot: observation.key, observation } }], false)
      return
    }
    if (observation.stage === 'ready' || observation.stage === 'present') device.revive(source.name)
    this.#refresh(device, false)
  }

  leave(source: Source, slot: string, reason: string): void {
    const device = this.#fuser.sighting(source.name, slot)?.device
    if (device !== undefined) this.announceLeaving(device, source.name, reason)
  }

  /** `by` says who has to call it off. */
  announceLeaving(device: TrackedDevice, by: string, reason: string): void {
    const state = this.state(device)
    if (state === GpuDeviceState.Leaving || deadStates.has(state)) return
    device.leavingBy = by
    this.#step(device, GpuDeviceState.Leaving, reason)
    if (this.#hub.wants('leaving')) this.#hub.emit({ type: 'leaving', device: this.snapshot(device), reason })
  }

  /** Whatever announced that it would go took it back. */
  callOff(device: TrackedDevice): void {
    device.leavingBy = undefined
    if (!device.present) return
    this.#settle(device)
    if (this.#hub.wants('changed')) this.#hub.emit({ type: 'changed', device: this.snapshot(device) })
  }

  /** One driver says that it is dead: so it is until this driver says otherwise, or it is off the bus. */
  die(source: Source, slot: string, stage: 'lost' | 'wedged', reason: string): void {
    const sighting = this.#fuser.sighting(source.name, slot)
    const device = sighting?.device
    if (sighting === undefined || device === undefined) return
    device.deaths ??= new Map()
    device.deaths.set(source.name, stage)
    this.#setFacts(device)
    this.#kill(device, stage, reason)
  }

  remove(source: Source, slot: string, graceful: boolean, reason: string): void {
    const sighting = this.#fuser.sighting(source.name, slot)
    if (sighting === undefined) return
    const device = this.#fuser.forget(sighting)
    if (device === undefined) return
    if (device.present) this.#refresh(device, false)
    else this.#gone(device, graceful || this.#goesAsAsked(device), reason)
  }

  /** Also when its driver does not say so; but a cable that is pulled meanwhile is one that was pulled. */
  #goesAsAsked(device: TrackedDevice): boolean {
    return device.removing && !deadStates.has(this.state(device))
  }

  /** The safe disconnect is done: it is off the bus, whether or not its drivers have said so yet. */
  ejected(device: TrackedDevice, reason: string): void {
    while (device.present && device.sightings[0] !== undefined) this.#fuser.forget(device.sightings[0])
    this.#gone(device, true, reason)
  }

  /** First sign that what is in the box goes too. */
  enclosureGone(id: string): void {
    for (const device of this.#byEnclosure.get(id) ?? []) {
      this.announceLeaving(device, `enclosure ${id}`, 'its enclosure is gone')
    }
  }

  /** The box is there (again): it no longer is a reason to go. */
  enclosureBack(id: string): void {
    for (const device of this.#byEnclosure.get(id) ?? []) {
      if (device.leavingBy === `enclosure ${id}`) this.callOff(device)
    }
  }

  /** Names and power of a box show up in the devices in it. */
  enclosureChanged(id: string): void {
    for (const device of this.#byEnclosure.get(id) ?? []) this.#invalidate(device)
  }

  sampled(sighting: Sighting, sample: HealthSample): void {
    const { device } = sighting
    if (device === undefined || deadStates.has(this.state(device))) return
    if (this.#hub.wants('health-sampled')) {
      const driver = sighting.source.name
      this.#hub.emit({ type: 'health-sampled', device: this.snapshot(device), driver, sample })
    }
    device.health ??= new HealthTracker()
    const change = device.health.sample(sighting.source.name, sample, this.#clock.now())
    if (change === undefined) return
    this.#settle(device)
    if (this.#hub.wants('health-changed')) {
      this.#hub.emit({ type: 'health-changed', device: this.snapshot(device), ...change })
    }
  }

  /** The count of open targets, of migrations or the mark of a safe disconnect has changed. */
  usageChanged(device: TrackedDevice): void {
    if (device.present) this.#settle(device)
  }

  #refresh(device: TrackedDevice, mayCallOff: boolean): void {
    const before = device.facts
    const facts = this.#setFacts(device)
    if (before === undefined || device.state === undefined) {
      device.entered(this.#registry.add(device.id, `seen by ${facts.sources.map(({ driver }) => driver).join(', ')}`))
      this.#arrived(device, undefined)
      return
    }
    const state = this.state(device)
    if (facts.stage === 'lost' || facts.stage === 'wedged') {
      this.#kill(
        device,
        facts.stage,
        `${facts.sources.map(({ driver }) => driver).join(', ')} lists it as ${facts.stage}`,
      )
    } else if (deadStates.has(state)) {
      this.#cameBack(device)
      return
    }
    this.#settle(device)
    this.#tellChanges(device, before, facts)
    if (state === GpuDeviceState.Leaving && (mayCallOff || (facts.stage === 'ready' && this.#leaverIsBack(device)))) {
      this.callOff(device)
    }
    this.#tellReady(device)
  }

  /** A driver that said the device goes, and now shows it ready, has taken it back. */
  #leaverIsBack(device: TrackedDevice): boolean {
    return device.leavingBy !== undefined && device.seenBy(device.leavingBy) !== undefined
  }

  #setFacts(device: TrackedDevice): Facts {
    const merged = mergeSightings(device.sightings)
    const verdict = this.#overrides.length === 0 ? merged.verdict : applyOverrides(this.#overrides, device.id, merged)
    const stage = stageAfterDeaths(merged.stage, device)
    const facts = verdict === merged.verdict && stage === merged.stage ? merged : { ...merged, verdict, stage }
    if (facts.enclosureId !== device.facts?.enclosureId) this.#moveToEnclosure(device, facts.enclosureId)
    device.facts = facts
    this.#invalidate(device)
    return facts
  }

  #moveToEnclosure(device: TrackedDevice, id: string | undefined): void {
    const before = device.facts?.enclosureId
    if (before !== undefined) this.#byEnclosure.get(before)?.delete(device)
    if (id === undefined) return
    const devices = this.#byEnclosure.get(id) ?? new Set()
    this.#byEnclosure.set(id, devices.add(device))
  }

  #cameBack(device: TrackedDevice): void {
    const awayMs = Math.max(0, this.#clock.now() - (device.awaySinceMs ?? this.#registry.get(device.id).sinceMs))
    const health = device.health?.restart(this.#clock.now())
    this.#step(device, GpuDeviceState.Returned, 'it is back')
    this.#arrived(device, awayMs)
    if (health !== undefined && this.#hub.wants('health-changed')) {
      this.#hub.emit({ type: 'health-changed', device: this.snapshot(device), ...health })
    }
  }

  #arrived(device: TrackedDevice, awayMs: number | undefined): void {
    device.leavingBy = undefined
    device.awaySinceMs = undefined
    device.toldReady = false
    device.toldExternal = false
    if (this.#hub.wants('gpu-present')) this.#hub.emit({ type: 'gpu-present', device: this.snapshot(device) })
    this.#tellExternal(device)
    if (awayMs !== undefined && this.#hub.wants('returned')) {
      this.#hub.emit({ type: 'returned', device: this.snapshot(device), awayMs })
    }
    const stage = device.facts?.stage
    if (stage === 'lost' || stage === 'wedged') this.#kill(device, stage, `it is ${stage} since before it was seen`)
    this.#tellReady(device)
    this.#settle(device)
  }

  #tellExternal(device: TrackedDevice): void {
    if (device.toldExternal || device.facts?.verdict.conclusion !== 'external') return
    device.toldExternal = true
    if (this.#hub.wants('connected')) this.#hub.emit({ type: 'connected', device: this.snapshot(device) })
  }

  #tellReady(device: TrackedDevice): void {
    const ready = device.facts?.stage === 'ready'
    if (!ready) device.toldReady = false
    if (!ready || device.toldReady || this.state(device) === GpuDeviceState.Leaving) return
    device.toldReady = true
    const state = this.state(device)
    if (state === GpuDeviceState.Discovered || state === GpuDeviceState.Returned) {
      this.#step(device, GpuDeviceState.Ready, 'its driver is bound')
    }
    this.#settle(device)
    if (this.#hub.wants('ready')) this.#hub.emit({ type: 'ready', device: this.snapshot(device) })
  }

  #tellChanges(device: TrackedDevice, before: Facts, after: Facts): void {
    const { link, power, other } = factChanges(before, after)
    if (link && this.#hub.wants('link-speed-changed')) {
      const change = { before: before.link, after: after.link }
      this.#hub.emit({ type: 'link-speed-changed', device: this.snapshot(device), ...change })
    }
    if (power && this.#hub.wants('power-state-changed')) {
      const change = { before: before.powerState, after: after.powerState }
      this.#hub.emit({ type: 'power-state-changed', device: this.snapshot(device), ...change })
    }
    const unbound = before.stage === 'ready' && after.stage === 'present'
    if ((other || unbound) && this.#hub.wants('changed')) {
      this.#hub.emit({ type: 'changed', device: this.snapshot(device) })
    }
    if (other) this.#tellExternal(device)
  }

  #kill(device: TrackedDevice, stage: 'lost' | 'wedged', reason: string): void {
    const to = stage === 'lost' ? GpuDeviceState.Lost : GpuDeviceState.Wedged
    const state = this.state(device)
    if (state === to || state === GpuDeviceState.Removed) return
    const now = this.#clock.now()
    device.awaySinceMs ??= now
    device.toldReady = false
    device.leavingBy = undefined
    this.#step(device, to, reason)
    if (this.#hub.wants(stage)) this.#hub.emit({ type: stage, device: this.snapshot(device), reason })
    // Wedged first and lost later is one fault.
    if (state === GpuDeviceState.Wedged || state === GpuDeviceState.Lost) return
    device.health ??= new HealthTracker()
    const change = device.health.fault(now)
    if (change !== undefined && this.#hub.wants('health-changed')) {
      this.#hub.emit({ type: 'health-changed', device: this.snapshot(device), ...change })
    }
  }

  #gone(device: TrackedDevice, graceful: boolean, reason: string): void {
    if (this.state(device) === GpuDeviceState.Removed) return
    this.#invalidate(device)
    if (!graceful) {
      const state = this.state(device)
      if (state !== GpuDeviceState.Lost && state !== GpuDeviceState.Wedged) this.#kill(device, 'lost', reason)
    }
    device.awaySinceMs ??= this.#clock.now()
    device.toldReady = false
    device.leavingBy = undefined
    device.deaths = undefined
    this.#step(device, GpuDeviceState.Removed, reason)
    if (this.#hub.wants('disconnected')) {
      this.#hub.emit({ type: 'disconnected', device: this.snapshot(device), graceful })
    }
  }

  /** Two devices turned out to be one; the other id is not on the bus any more. */
  #absorbed(gone: TrackedDevice, into: TrackedDevice): void {
    into.openTargets += gone.openTargets
    into.migrations += gone.migrations
    this.#gone(gone, true, `it is the same device as ${into.id}`)
  }

  /** Brings the state in line with what is true of the device now. */
  #settle(device: TrackedDevice): void {
    const state = this.state(device)
    if (state === GpuDeviceState.Leaving && device.leavingBy !== undefined) return
    if (deadStates.has(state)) return
    const want = settledState(device)
    if (want === state || (want === GpuDeviceState.Discovered && state === GpuDeviceState.Returned)) return
    // The table has one way into use, and `#tellReady` takes it.
    if (want !== GpuDeviceState.Discovered && !device.toldReady && state !== GpuDeviceState.Leaving) return
    this.#step(device, want, settledReason(device, want))
  }

  #step(device: TrackedDevice, to: GpuDeviceState, reason: string): void {
    device.entered(this.#registry.transition(device.id, to, reason))
    this.#invalidate(device)
  }

  #invalidate(device: TrackedDevice): void {
    device.snapshot = undefined
    this.#list = undefined
  }
}

/** What a driver said of its death holds until that driver shows it alive again, or it has been off the bus. */
function stageAfterDeaths(stage: Facts['stage'], { deaths }: TrackedDevice): Facts['stage'] {
  if (deaths === undefined) return stage
  return [...deaths.values()].includes('wedged') ? 'wedged' : 'lost'
}
