import type { ComputeTarget, WorkloadNeeds } from '@egpu/core'

/** Says what is missing. A function, because most of the time nobody asks. */
export type Misfit = () => string

/**
 * Prepares the comparison of targets with one workload's needs; the result is `undefined` for a target that fits. What
 * a target does not tell is not held against it: opening it will.
 */
export function misfitOf(needs: WorkloadNeeds): (target: ComputeTarget, usedBytes: number) => Misfit | undefined {
  const { runtimes, memoryBytes, features = [], chip } = needs
  const limits = Object.entries(needs.limits ?? {})
  return (target, usedBytes) => {
    if (!runtimes.includes(target.runtime)) return () => `runs ${target.runtime}, which the workload has no code for`
    if (chip !== undefined && target.chip !== undefined && target.chip !== chip) {
      return () => `is a ${target.chip}, the state is of a ${chip}`
    }
    const { memoryBytes: total } = target
    if (memoryBytes !== undefined && total !== undefined && memoryBytes + usedBytes > total) {
      return () => `has ${total - usedBytes} of ${total} bytes free, ${memoryBytes} are needed`
    }
    for (const [name, least] of limits) {
      const limit = target.limits?.[name]
      if (limit !== undefined && limit < least) return () => `allows ${name} ${limit}, ${least} is needed`
    }
    for (const feature of features) {
      if (target.features?.includes(feature) === false) return () => `lacks the feature ${feature}`
    }
    return undefined
  }
}

/** Why `target` cannot take a workload with these needs, as the end of a sentence; `undefined` when it can. */
export function incompatibility(
  needs: WorkloadNeeds,
  target: ComputeTarget,
  usedBytes: number = 0,
): string | undefined {
  return misfitOf(needs)(target, usedBytes)?.()
}
