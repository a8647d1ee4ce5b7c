import type { ComputeTarget } from '@egpu/core'

/** Where work may run, whatever the planner and the strategy think. What is left out is no constraint. */
export interface PlacementConstraints {
  /** Only on these: ids of devices or of targets. */
  readonly only?: readonly string[] | undefined
  /** Never on these. */
  readonly never?: readonly string[] | undefined
  /** `false`: not on what can vanish with a cable, nor where nobody can tell; `true`: only on what can. */
  readonly removable?: boolean | undefined
  /** The target has to have so much memory in all, where it tells. */
  readonly leastMemoryBytes?: number | undefined
}

/** Throws a `TypeError` that names the first constraint that cannot be. */
export function checkConstraints(constraints: PlacementConstraints): void {
  const { only, never, removable, leastMemoryBytes } = constraints
  for (const [name, ids] of Object.entries({ only, never })) {
    const isList = ids === undefined || (Array.isArray(ids) && ids.every((id) => typeof id === 'string'))
    if (!isList) throw new TypeError(`constraints.${name} must be a list of ids`)
  }
  if (removable !== undefined && typeof removable !== 'boolean') {
    throw new TypeError(`constraints.removable must be true or false, not ${String(removable)}`)
  }
  if (leastMemoryBytes !== undefined && !(leastMemoryBytes > 0)) {
    throw new TypeError(`constraints.leastMemoryBytes must be more than 0, not ${leastMemoryBytes}`)
  }
}

/** Why a target is not allowed, as the end of a sentence. */
export function forbidden(constraints: PlacementConstraints, target: ComputeTarget): string | undefined {
  const { only, never, removable, leastMemoryBytes = 0 } = constraints
  const isOneOf = (ids: readonly string[]): boolean =>
    ids.includes(target.id) || (target.deviceId !== undefined && ids.includes(target.deviceId))
  if (only !== undefined && !isOneOf(only)) return 'is not among those that are allowed'
  if (never !== undefined && isOneOf(never)) return 'is among those that are not allowed'
  if (removable === false && target.removable !== false) {
    return target.removable === true ? 'can be pulled, which is not allowed' : 'may be one that can be pulled'
  }
  if (removable === true && target.removable !== true) return 'is not known to be one that can be pulled'
  if ((target.memoryBytes ?? Infinity) >= leastMemoryBytes) return undefined
  return `has ${target.memoryBytes} bytes of memory, at least ${leastMemoryBytes} are wanted`
}
