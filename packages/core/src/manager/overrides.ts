import type { DeviceIdentity } from '../types/device.ts'
import type { Verdict } from '../types/verdict.ts'
import type { Facts } from './fusion/merge.ts'
import { overriddenVerdict } from './fusion/verdict.ts'
import type { DeviceOverride } from './options.ts'

/** Refuses overrides that could match anything. */
export function checkOverrides(overrides: readonly DeviceOverride[]): void {
  for (const { device, conclusion } of overrides) {
    const parts = typeof device === 'string' ? [device] : Object.values(device).filter((part) => part !== undefined)
    if (parts.length === 0 || parts.includes('')) {
      throw new TypeError('an override needs a device id, or at least one part of an identity')
    }
    if (conclusion !== 'external' && conclusion !== 'internal') {
      throw new TypeError(`an override says external or internal, not ${String(conclusion)}`)
    }
  }
}

/** The verdict after the person's word, if there is one for this device; the last one given counts. */
export function applyOverrides(overrides: readonly DeviceOverride[], id: string, facts: Facts): Verdict {
  const override = overrides.findLast(({ device }) =>
    typeof device === 'string' ? device === id : matches(device, facts),
  )
  return override === undefined ? facts.verdict : overriddenVerdict(facts.verdict, override)
}

function matches(wanted: Partial<DeviceIdentity>, { sources }: Facts): boolean {
  const fields = Object.entries(wanted) as [keyof DeviceIdentity, unknown][]
  return fields.every(
    ([field, value]) => value === undefined || sources.some(({ identity }) => identity[field] === value),
  )
}
