/** Where a device is in its life. `transitions.ts` has the allowed steps. */
export const GpuDeviceState = {
  /** On the bus; not known to be usable. */
  Discovered: 'discovered',
  /** Driver bound, nodes can be opened. */
  Ready: 'ready',
  /** Work runs on it. */
  Active: 'active',
  /** Usable, with something wrong. */
  Degraded: 'degraded',
  /** Asleep. Reading about it must not wake it. */
  Suspended: 'suspended',
  /** Work is being moved off it. */
  Migrating: 'migrating',
  /** Announced to go, or its cable is out already. */
  Leaving: 'leaving',
  /** Gone without warning. */
  Lost: 'lost',
  /** Still listed, but dead. */
  Wedged: 'wedged',
  /** Back after it was lost or removed, not known to be usable yet. */
  Returned: 'returned',
  /** Off the bus. */
  Removed: 'removed',
} as const
export type GpuDeviceState = (typeof GpuDeviceState)[keyof typeof GpuDeviceState]
