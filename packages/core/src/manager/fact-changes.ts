import type { LinkReport } from '../types/link.ts'
import { equal } from './equal.ts'
import type { Facts } from './fusion/merge.ts'

/** What is different, sorted by the event that tells it. */
export interface FactChanges {
  readonly link: boolean
  readonly power: boolean
  readonly other: boolean
}

export function factChanges(before: Facts, after: Facts): FactChanges {
  const link = before.link !== after.link && !equal(linkSpeed(before.link), linkSpeed(after.link))
  const power = before.powerState !== after.powerState
  return { link, power, other: differsElsewhere(before, after) }
}

/** Written out, the cheap ones first: this runs for every observation. */
function differsElsewhere(before: Facts, after: Facts): boolean {
  return (
    before.enclosureId !== after.enclosureId ||
    before.thunderboltPort !== after.thunderboltPort ||
    before.thunderboltSpeed !== after.thunderboltSpeed ||
    before.hasDisplays !== after.hasDisplays ||
    before.kernelDriver !== after.kernelDriver ||
    !equal(before.displayIds, after.displayIds) ||
    !equal(before.appleSilicon, after.appleSilicon) ||
    !equal(before.gpu, after.gpu) ||
    !equal(before.identity, after.identity) ||
    !equal(before.verdict, after.verdict)
  )
}

/** What a link runs at. A measurement is news about what is known of it, not about the link. */
function linkSpeed(link: LinkReport | undefined): unknown {
  if (link === undefined) return undefined
  const { measuredGBps: _, ...speed } = link
  return speed
}
