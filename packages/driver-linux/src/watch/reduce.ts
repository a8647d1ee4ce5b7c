import type { ResyncReason } from '@egpu/core/driver'
import { applyLook } from './apply-look.ts'
import {
  driverGone,
  functionGone,
  markWedged,
  recoveryFailed,
  routerGone,
  slotEmpty,
  tunnelBack,
} from './departures.ts'
import { count, forget, hasGap, isCovered } from './sequence.ts'
import { signOf } from './sign.ts'
import type { SourceMessage } from './source.ts'
import type { WatchMessage, WatchState } from './state.ts'
import { emit, setDevice, wantLook } from './step.ts'
import type { Step } from './step.ts'
import type { Uevent } from './uevent.ts'

/**
 * The watcher's whole judgement: pure, so every sequence of events that was ever seen can be replayed in no time.
 * Departures follow from the event alone and are emitted at once; arrivals and changes ask for a look, whose result
 * comes back as a message.
 */
export function reduce(before: WatchState, message: WatchMessage, atMs: number): Step {
  return due(react(before, message, atMs), atMs)
}

function react(state: WatchState, message: WatchMessage, atMs: number): Step {
  switch (message.type) {
    case 'source':
      return onSource(state, message.message, atMs)
    case 'looked':
      return applyLook({ ...state, looking: false, lookedAtMs: atMs }, message.view, atMs)
    case 'absent':
      return slotEmpty(state, message.keys, atMs)
    case 'removal-expected':
      return { state: { ...state, expected: expect(state.expected, message.key, message.expected) }, effects: [] }
    case 'resync':
      return { state: wantResync(state, message.reason, atMs, 0), effects: [] }
    case 'time':
      return { state, effects: [] }
  }
}

function onSource(state: WatchState, message: SourceMessage, atMs: number): Step {
  switch (message.type) {
    case 'uevent':
      return onUevent(state, message.event, atMs)
    case 'overflow':
      return { state: onLoss({ ...state, sequence: forget(state.sequence) }, atMs), effects: [] }
    case 'changed':
      return { state: wantLook(state, atMs), effects: [] }
    case 'failed':
      // The runtime opens the next source; what happened in between is unknown.
      return { state: onLoss({ ...state, sequence: forget(state.sequence) }, atMs), effects: [] }
  }
}

function onUevent(before: WatchState, event: Uevent, atMs: number): Step {
  const { sequence, heard } = count(before.sequence, event.seqnum, atMs)
  const state = calm({ ...before, sequence }, atMs)
  const sign = heard ? undefined : signOf(event)
  if (sign === undefined) return { state, effects: [] }
  switch (sign.what) {
    case 'look':
      // A look shows what `add` did before it began. It proves nothing about `remove`, which the kernel sends before it
      // takes the directory away (`device_del` in drivers/base/core.c), so departures count however old they are.
      return {
        state: isCovered(sequence, event.seqnum) ? state : arrived(wantLook(state, atMs), sign.arrived),
        effects: [],
      }
    case 'router-gone':
      return routerGone(wantLook(state, atMs), sign.router, 'router', atMs)
    case 'tunnel-down':
      return routerGone(wantLook(state, atMs), sign.router, 'tunnel', atMs)
    case 'tunnel-up':
      return tunnelBack(wantLook(state, atMs), sign.router)
    case 'driver-gone':
      return driverGone(wantLook(state, atMs), sign.devpath, atMs)
    case 'function-gone':
      return functionGone(wantLook(state, atMs), sign.devpath, atMs)
    case 'recovery-failed':
      return { state: recoveryFailed(wantLook(state, atMs), sign.devpath, atMs), effects: [] }
    case 'wedged':
      return markWedged(wantLook(state, atMs), sign.devpath, sign.wedge)
  }
}

function expect(before: ReadonlySet<string>, key: string, expected: boolean): ReadonlySet<string> {
  const others = [...before].filter((other) => other !== key)
  return new Set(expected ? [...others, key] : others)
}

function arrived(state: WatchState, what: string | undefined): WatchState {
  if (what === undefined || !state.departed.has(what)) return state
  return { ...state, departed: new Map([...state.departed].filter(([gone]) => gone !== what)) }
}

/** After everything else: what became due by the time. */
function due({ state: before, effects: earlier }: Step, atMs: number): Step {
  let state = before
  const effects = [...earlier]
  if (hasGap(state.sequence, atMs)) {
    state = onLoss({ ...state, sequence: { ...state.sequence, missing: [] } }, atMs)
  }
  for (const [key, device] of state.devices) {
    if (device.wedgedAtMs === undefined || device.wedgedAtMs > atMs) continue
    const seconds = Math.round(state.options.ghostMs / 1000)
    const reason = `its cable has been out for ${seconds} s and the kernel still lists it: its driver does not let go`
    const advice = 'End what still uses it, without unbinding or unloading its driver; if it stays, restart.'
    effects.push(emit({ type: 'device-wedged', key, reason }))
    const wedged = { ...device, phase: 'wedged' as const, wedge: { reason, advice }, wedgedAtMs: undefined }
    state = wantLook(setDevice(state, key, wedged), atMs)
  }
  if (state.lookAtMs !== undefined && state.lookAtMs <= atMs && !state.looking) {
    state = { ...state, lookAtMs: undefined, looking: true }
    effects.push({ do: 'look' })
  }
  return { state, effects }
}

/** Messages are missing: look soon for what changed, and report a `resync` once the storm is over. */
function onLoss(state: WatchState, atMs: number): WatchState {
  return wantLook(wantResync(state, 'overflow', atMs, state.options.quietMs), atMs)
}

function wantResync(state: WatchState, why: ResyncReason, atMs: number, quietMs: number): WatchState {
  // One resync answers all; the routine one is the least of the reasons.
  const reason = why === 'safety-rescan' ? (state.resync?.reason ?? why) : why
  const latestMs = state.resync?.latestMs ?? atMs + (quietMs === 0 ? 0 : state.options.longestStormMs)
  const dueMs = Math.min(atMs + quietMs, latestMs)
  return wantLook({ ...state, resync: { reason, atMs: dueMs, latestMs } }, dueMs, 0)
}

/** Events keep coming: a resync after a loss waits on. */
function calm(state: WatchState, atMs: number): WatchState {
  const { resync } = state
  if (resync === undefined || resync.reason !== 'overflow') return state
  const quietAtMs = Math.min(atMs + state.options.quietMs, resync.latestMs)
  return { ...state, resync: { ...resync, atMs: Math.max(resync.atMs, quietAtMs) } }
}
