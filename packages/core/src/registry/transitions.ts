import { GpuDeviceState } from './states.ts'

const s = GpuDeviceState

/** Where a device on the bus can go at any time, whatever it was doing. */
const departures = [s.Leaving, s.Lost, s.Wedged, s.Removed] as const

/** Load, power and condition change independently, so each of these reaches each other. */
const usable = [s.Ready, s.Active, s.Degraded, s.Suspended, s.Migrating] as const

const from = (state: GpuDeviceState): readonly GpuDeviceState[] => [
  ...usable.filter((other) => other !== state),
  // The kernel driver was unbound.
  s.Discovered,
  ...departures,
]

/**
 * Every step a device may take; what is not here is refused. A device becomes usable by way of `ready` only, a
 * `leaving` that was called off goes back to what it was, and the only way back from `lost`, `wedged` and `removed` is
 * `returned`, which raises the epoch.
 */
export const transitions: Readonly<Record<GpuDeviceState, readonly GpuDeviceState[]>> = {
  [s.Discovered]: [s.Ready, ...departures],
  [s.Ready]: from(s.Ready),
  [s.Active]: from(s.Active),
  [s.Degraded]: from(s.Degraded),
  [s.Suspended]: from(s.Suspended),
  [s.Migrating]: from(s.Migrating),
  [s.Leaving]: [s.Discovered, ...usable, s.Lost, s.Wedged, s.Removed],
  [s.Lost]: [s.Returned, s.Wedged, s.Removed],
  [s.Wedged]: [s.Returned, s.Lost, s.Removed],
  [s.Returned]: [s.Ready, ...departures],
  [s.Removed]: [s.Returned],
}

/** States in which nothing may be read from the device or asked of it. */
export const deadStates: ReadonlySet<GpuDeviceState> = new Set([s.Lost, s.Wedged, s.Removed])

/** Entering one of these starts a new incarnation: handles and results of the one before are void. */
export const epochStates: ReadonlySet<GpuDeviceState> = new Set([s.Lost, s.Wedged, s.Returned])
