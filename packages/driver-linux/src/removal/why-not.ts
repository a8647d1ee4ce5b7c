import type { SystemPlan } from '@egpu/core'

/** Why a plan that was shown to somebody cannot be run now; `now` is the same plan, made afresh. */
export function whyNot(shown: SystemPlan, now: SystemPlan): string | undefined {
  if (now.refusals.length > 0) return now.refusals.join('; ')
  if (now.holders.length > 0) {
    const names = now.holders.map(({ name, pid, holds }) => `${name ?? 'a process'} (${pid}) has ${holds} open`)
    return `somebody still uses it: ${names.join(', ')}`
  }
  const same = shown.steps.length === now.steps.length
  const changed = now.steps.find(({ command }, index) => shown.steps[index]?.command !== command)
  return same && changed === undefined ? undefined : 'the machine has changed since the plan was made: make a new one'
}
