import { isDeepStrictEqual } from 'node:util'
import type { DeviceObservation, DriverSnapshot, ResyncReason } from '@egpu/core/driver'
import { forgetEnclosure, note, removeDevice } from './departures.ts'
import { cover } from './sequence.ts'
import type { TrackedDevice, View, WatchEffect, WatchState } from './state.ts'
import { emit, setDevice, wantLook } from './step.ts'
import type { Step } from './step.ts'
import { watchFindings } from './watch-findings.ts'

/** How long a note stays among the findings. */
const noteMs = 10 * 60_000

/** Compares a look with what is known. */
export function applyLook(before: WatchState, looked: View, atMs: number): Step {
  const departed = new Map([...before.departed].filter(([, untilMs]) => untilMs > atMs))
  const notes = before.notes.filter(({ atMs: notedAtMs }) => atMs - notedAtMs < noteMs)
  const view = believable(looked, departed)
  const hidden = view !== looked
  const current = { ...before, departed, notes, sequence: cover(before.sequence, view.seqnum) }
  const state = hidden ? wantLook(current, Math.min(...departed.values()), 0) : current
  if (!state.started) return resync(state, view, 'started', atMs)
  const { resync: wanted } = state
  if (wanted !== undefined && wanted.atMs <= atMs) return resync(state, view, wanted.reason, atMs)
  const step = differences(state, view, atMs)
  return { ...step, state: wanted === undefined ? step.state : wantLook(step.state, wanted.atMs, 0) }
}

function differences(before: WatchState, view: View, atMs: number): Step {
  let state = before
  const effects: WatchEffect[] = []
  const then = (step: Step): void => {
    state = step.state
    effects.push(...step.effects)
  }
  const seenBoxes = new Set(view.snapshot.enclosures.map(({ id }) => id))
  for (const enclosure of view.snapshot.enclosures) {
    const known = state.enclosures.get(enclosure.id)
    if (isDeepStrictEqual(known, enclosure)) continue
    if (known === undefined) state = noteReturn(state, enclosure.id, atMs)
    state = { ...state, enclosures: new Map([...state.enclosures, [enclosure.id, enclosure]]) }
    effects.push(emit({ type: 'enclosure-observed', enclosure }))
  }
  state = { ...state, routers: view.routers }
  for (const observation of view.snapshot.devices) then(seeDevice(state, observation, view, atMs))
  const seen = new Set(view.snapshot.devices.map(({ key }) => key))
  for (const [key, device] of state.devices) {
    if (!seen.has(key)) then(isRenamed(device, view) ? rename(state, key) : removeDevice(state, key, device, atMs))
  }
  for (const id of state.enclosures.keys()) {
    if (seenBoxes.has(id)) continue
    effects.push(emit({ type: 'enclosure-removed', id }))
    state = forgetEnclosure(state, id, undefined, atMs)
  }
  then(tellFindings({ ...state, looked: view.snapshot.findings }))
  return { state, effects }
}

function seeDevice(state: WatchState, observation: DeviceObservation, view: View, atMs: number): Step {
  const { key } = observation
  const devpath = view.devpaths.get(key) ?? ''
  const known = state.devices.get(key)
  const seen = setDevice(state, key, { observation, devpath, phase: 'here', fromStart: known?.fromStart })
  const observed = [emit({ type: 'device-observed', device: observation })]
  if (known === undefined) return { state: seen, effects: observed }
  switch (standing(known, observation, view, state, atMs)) {
    case 'gone':
      return { state, effects: [] }
    case 'undecided':
      return { state: wantLook(state, (known.driverGoneAtMs ?? atMs) + state.options.unboundMs, 0), effects: [] }
    case 'back':
      return { state: seen, effects: observed }
    case 'here': {
      if (isDeepStrictEqual(known.observation, observation)) return { state, effects: [] }
      if (observation.stage !== 'lost' || known.observation.stage === 'lost') return { state: seen, effects: observed }
      const dead = setDevice(state, key, { ...known, observation, phase: 'lost' })
      const reason = 'it is still listed but does not answer any more'
      return { state: dead, effects: [emit({ type: 'device-lost', key, reason })] }
    }
  }
}

/** Its box became known, or unknown, and with it the key: the same function goes by another name. */
function isRenamed({ devpath }: TrackedDevice, view: View): boolean {
  return [...view.devpaths.values()].includes(devpath)
}

function rename(state: WatchState, key: string): Step {
  return {
    state: setDevice(state, key, undefined),
    effects: [emit({ type: 'device-removed', key, graceful: true })],
  }
}

/** The look without what an event has taken away already. */
function believable(view: View, departed: WatchState['departed']): View {
  const gone = [...departed.keys()]
  const hasLeft = (devpath: string): boolean => gone.some((path) => devpath === path || devpath.startsWith(`${path}/`))
  const lateRouters = [...view.routers].filter(([name]) => departed.has(name))
  const lateDevices = new Set([...view.devpaths].filter(([, path]) => hasLeft(path)).map(([key]) => key))
  if (lateRouters.length === 0 && lateDevices.size === 0) return view
  const lateBoxes = new Set(lateRouters.map(([, { enclosureId }]) => enclosureId))
  return {
    ...view,
    routers: new Map([...view.routers].filter(([name]) => !departed.has(name))),
    snapshot: {
      ...view.snapshot,
      devices: view.snapshot.devices.filter(({ key }) => !lateDevices.has(key)),
      enclosures: view.snapshot.enclosures.filter(({ id }) => !lateBoxes.has(id)),
    },
  }
}

/** What a look means for a device that was about to go. */
function standing(
  known: TrackedDevice,
  observation: DeviceObservation,
  view: View,
  state: WatchState,
  atMs: number,
): 'gone' | 'undecided' | 'back' | 'here' {
  if (known.phase === 'here') return 'here'
  if (known.cutBy === 'router') {
    // Its box is there again, so the link was only trained anew.
    return [...view.routers.values()].some(({ devices }) => devices.includes(observation.key)) ? 'back' : 'gone'
  }
  if (known.cutBy !== undefined) return 'gone'
  if (known.phase === 'lost' && observation.stage === 'lost') return 'gone'
  if (known.driverGoneAtMs === undefined) return known.phase === 'wedged' ? 'gone' : 'back'
  if (observation.kernelDriver !== undefined && observation.stage === 'ready') return 'back'
  if (known.phase === 'wedged') return 'gone'
  return atMs - known.driverGoneAtMs >= state.options.unboundMs ? 'back' : 'undecided'
}

/** Everything afresh. What is dead but still listed stays dead. */
function resync(before: WatchState, view: View, reason: ResyncReason, atMs: number): Step {
  const devices = new Map<string, TrackedDevice>()
  const listed: DeviceObservation[] = []
  for (const observation of view.snapshot.devices) {
    const { key } = observation
    const devpath = view.devpaths.get(key) ?? ''
    const known = before.devices.get(key)
    const still = known === undefined ? 'here' : standing(known, observation, view, before, atMs)
    if (known !== undefined && (still === 'gone' || still === 'undecided')) {
      devices.set(key, known)
      listed.push({ ...observation, stage: stageOf(known, observation) })
    } else {
      devices.set(key, { observation, devpath, phase: 'here', fromStart: !before.started || known?.fromStart })
      listed.push(observation)
    }
  }
  const enclosures = new Map(view.snapshot.enclosures.map((enclosure) => [enclosure.id, enclosure]))
  const state: WatchState = {
    ...before,
    started: true,
    devices,
    enclosures,
    routers: view.routers,
    looked: view.snapshot.findings,
    resync: undefined,
    expected: new Set([...before.expected].filter((key) => devices.has(key))),
  }
  const findings = watchFindings(state)
  const snapshot: DriverSnapshot = { devices: listed, enclosures: view.snapshot.enclosures, findings }
  return {
    state: { ...state, findings: JSON.stringify(findings) },
    effects: [emit({ type: 'resync', reason, snapshot })],
  }
}

function stageOf({ phase, cutBy }: TrackedDevice, { stage }: DeviceObservation): DeviceObservation['stage'] {
  if (phase === 'wedged') return 'wedged'
  return cutBy === undefined ? stage : 'lost'
}

function noteReturn(state: WatchState, id: string, atMs: number): WatchState {
  const last = state.enclosureGone.get(id)?.at(-1)
  if (last === undefined || atMs - last > state.options.retrainMs) return state
  return note(state, { code: 'link-retrained', enclosureId: id, atMs })
}

/** Findings replace each other as a whole, so they are told only when something about them changed. */
function tellFindings(state: WatchState): Step {
  const findings = watchFindings(state)
  const text = JSON.stringify(findings)
  if (text === state.findings) return { state, effects: [] }
  return { state: { ...state, findings: text }, effects: [emit({ type: 'findings-observed', findings })] }
}
