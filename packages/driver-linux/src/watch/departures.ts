import { Transport } from '@egpu/core'
import type { TrackedDevice, WatchEffect, WatchNote, WatchState, Wedge } from './state.ts'
import { emit, setDevice, wantLook } from './step.ts'
import type { Step } from './step.ts'

/** A box went, or the tunnel to it: every GPU behind it is leaving now, whatever the kernel does about it later. */
export function routerGone(before: WatchState, name: string, how: 'router' | 'tunnel', atMs: number): Step {
  let state = how === 'router' ? depart(before, name, atMs) : before
  const router = state.routers.get(name)
  if (router === undefined) return { state, effects: [] }
  const effects: WatchEffect[] = []
  const id = router.enclosureId
  const box = state.enclosures.get(id)?.name ?? `router ${name}`
  const reason = how === 'router' ? `${box} is off the cable` : `the PCI Express tunnel to ${box} was taken down`
  for (const key of router.devices) {
    const device = state.devices.get(key)
    if (device === undefined) continue
    const step = cutOff(state, key, device, how, reason, atMs)
    state = step.state
    effects.push(...step.effects)
  }
  if (how === 'tunnel') return { state, effects }
  effects.push(emit({ type: 'enclosure-removed', id }))
  return { state: forgetEnclosure(state, id, name, atMs), effects }
}

/** The tunnel is there again before the kernel removed anything: a look will show what became of the GPUs behind it. */
export function tunnelBack(before: WatchState, name: string): Step {
  let state = before
  for (const key of before.routers.get(name)?.devices ?? []) {
    const device = state.devices.get(key)
    if (device?.cutBy === 'tunnel')
      state = setDevice(state, key, { ...device, cutBy: undefined, wedgedAtMs: undefined })
  }
  return { state, effects: [] }
}

/** A driver let go. On a card that is gone this is the kernel's confirmation; otherwise it is the first sign. */
export function driverGone(before: WatchState, devpath: string, atMs: number): Step {
  let state = before
  const effects: WatchEffect[] = []
  const uncertain: string[] = []
  for (const [key, device] of state.devices) {
    if (device.devpath !== devpath && !devpath.startsWith(`${device.devpath}/drm/`)) continue
    const first = device.driverGoneAtMs === undefined
    let next: TrackedDevice = { ...device, driverGoneAtMs: device.driverGoneAtMs ?? atMs }
    if (device.phase === 'here') {
      effects.push(emit({ type: 'device-leaving', key, reason: 'its kernel driver let go of it' }))
      next = { ...next, phase: 'leaving' }
    } else if (device.phase === 'leaving' && device.cutBy !== undefined) {
      effects.push(emit({ type: 'device-lost', key, reason: 'its cable is out and its kernel driver let go of it' }))
      next = { ...next, phase: 'lost' }
    }
    if (first && device.cutBy === undefined) uncertain.push(key)
    state = setDevice(state, key, next)
  }
  if (uncertain.length === 0) return { state, effects }
  // The kernel takes a tree down branch by branch, seconds apart. An empty slot above says now that all of it went.
  const root = topmost(uncertain.map((key) => state.devices.get(key)?.devpath ?? ''))
  const keys = [...state.devices].filter(([, { devpath: path }]) => root.some((top) => path.startsWith(top)))
  return { state, effects: [...effects, { do: 'check-presence', keys: keys.map(([key]) => key) }] }
}

/** The functions at and below `devpath` are off the bus. */
export function functionGone(before: WatchState, devpath: string, atMs: number): Step {
  let state = depart(before, devpath, atMs)
  const effects: WatchEffect[] = []
  for (const [key, device] of state.devices) {
    if (device.devpath !== devpath && !device.devpath.startsWith(`${devpath}/`)) continue
    const step = removeDevice(state, key, device, atMs)
    state = step.state
    effects.push(...step.effects)
  }
  return { state, effects }
}

/** The kernel gave it up. Its driver may be bound again, which a look will show. */
export function markWedged(before: WatchState, devpath: string, wedge: Wedge): Step {
  let state = before
  const effects: WatchEffect[] = []
  for (const [key, device] of state.devices) {
    if (device.phase === 'wedged') continue
    if (devpath !== device.devpath && !devpath.startsWith(`${device.devpath}/drm/`)) continue
    effects.push(emit({ type: 'device-wedged', key, reason: wedge.reason }))
    state = setDevice(state, key, {
      ...device,
      phase: 'wedged',
      wedge,
      driverGoneAtMs: undefined,
      wedgedAtMs: undefined,
    })
  }
  return { state, effects }
}

/** Notes for each GPU at `devpath` that the kernel could not recover it from an error. */
export function recoveryFailed(before: WatchState, devpath: string, atMs: number): WatchState {
  let state = before
  for (const [key, device] of before.devices) {
    if (device.devpath === devpath) state = note(state, { code: 'pcie-recovery-failed', deviceId: key, atMs })
  }
  return state
}

/** The slot above says that there is no card any more. */
export function slotEmpty(before: WatchState, keys: readonly string[], atMs: number): Step {
  let state = before
  const effects: WatchEffect[] = []
  for (const key of keys) {
    const device = state.devices.get(key)
    if (device === undefined || device.cutBy !== undefined) continue
    const step = cutOff(state, key, device, 'slot', 'there is no card in its slot any more', atMs)
    state = step.state
    effects.push(...step.effects)
    const cut = state.devices.get(key)
    if (cut === undefined || cut.driverGoneAtMs === undefined || cut.phase !== 'leaving') continue
    effects.push(emit({ type: 'device-lost', key, reason: 'its slot is empty and its kernel driver let go of it' }))
    state = setDevice(state, key, { ...cut, phase: 'lost' })
  }
  return { state, effects }
}

/** A device left the bus. Graceful is what was asked for here, or what left its box connected. */
export function removeDevice(before: WatchState, key: string, device: TrackedDevice, atMs: number): Step {
  const { enclosureId } = device.observation
  const boxStays = enclosureId !== undefined && before.enclosures.has(enclosureId)
  const bootReset = isBootReset(before, device, atMs)
  const effects: WatchEffect[] = []
  let state = before
  if (bootReset) {
    const reason = 'the tunnel that the firmware made is taken down while the Thunderbolt driver starts'
    if (device.phase === 'here') effects.push(emit({ type: 'device-leaving', key, reason }))
    state = note(state, { code: 'boot-tunnel-reset', deviceId: key, atMs })
  }
  const graceful = bootReset || (device.cutBy === undefined && (before.expected.has(key) || boxStays))
  effects.push(emit({ type: 'device-removed', key, graceful }))
  const expected = new Set(state.expected)
  expected.delete(key)
  return { state: { ...setDevice(state, key, undefined), expected }, effects }
}

/**
 * Firmware may have made a tunnel that the Thunderbolt driver takes down when it starts (`thunderbolt.host_reset`, the
 * default since Linux 6.9): a GPU behind a tunnel, there from the beginning, gone before any router was seen.
 */
function isBootReset({ options }: WatchState, { observation, fromStart }: TrackedDevice, atMs: number): boolean {
  const { enclosureId, verdict } = observation
  if (fromStart !== true || atMs > options.bootUntilMs || enclosureId !== undefined) return false
  return verdict?.transport === Transport.Thunderbolt || verdict?.transport === Transport.Usb4
}

/** Takes a box off the books and counts how often it went. */
export function forgetEnclosure(before: WatchState, id: string, router: string | undefined, atMs: number): WatchState {
  const { flapMs, flapCount } = before.options
  const enclosures = new Map(before.enclosures)
  enclosures.delete(id)
  const routers = new Map(before.routers)
  if (router !== undefined) routers.delete(router)
  const times = [...(before.enclosureGone.get(id) ?? []), atMs].filter((time) => time > atMs - flapMs)
  const state = { ...before, enclosures, routers, enclosureGone: new Map([...before.enclosureGone, [id, times]]) }
  if (times.length < flapCount) return state
  return note(state, { code: 'enclosure-flapping', enclosureId: id, count: times.length, atMs })
}

/** Adds a note, in the place of an older one about the same thing. */
export function note(state: WatchState, added: WatchNote): WatchState {
  const others = state.notes.filter(
    ({ code, enclosureId, deviceId }) =>
      code !== added.code || enclosureId !== added.enclosureId || deviceId !== added.deviceId,
  )
  return wantLook({ ...state, notes: [...others, added] }, added.atMs)
}

function depart(state: WatchState, what: string, atMs: number): WatchState {
  return { ...state, departed: new Map([...state.departed, [what, atMs + state.options.departedMs]]) }
}

function cutOff(
  before: WatchState,
  key: string,
  device: TrackedDevice,
  cutBy: NonNullable<TrackedDevice['cutBy']>,
  reason: string,
  atMs: number,
): Step {
  // A tunnel goes just before its router; only the router coming back shows that it was a re-train.
  if (device.cutBy === 'tunnel' && cutBy === 'router') {
    return { state: setDevice(before, key, { ...device, cutBy }), effects: [] }
  }
  if (device.cutBy !== undefined) return { state: before, effects: [] }
  const wedgedAtMs = device.phase === 'wedged' ? undefined : atMs + before.options.ghostMs
  const effects = device.phase === 'here' ? [emit({ type: 'device-leaving', key, reason })] : []
  const phase = device.phase === 'here' ? 'leaving' : device.phase
  return { state: setDevice(before, key, { ...device, phase, cutBy, wedgedAtMs }), effects }
}

/** The root ports of some devpaths: `/devices/pci0000:00/0000:00:02.0/`. */
function topmost(devpaths: readonly string[]): readonly string[] {
  return [...new Set(devpaths.map((path) => `${path.split('/').slice(0, 4).join('/')}/`))]
}
