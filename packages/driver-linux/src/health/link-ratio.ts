import type { LinkReport } from '@egpu/core'

/** Capacity of each part of a link, by name, leaving out what is no real limit. */
export type LinkCapacities = ReadonlyMap<string, number>

/**
 * What each part of the link carries: lanes of the real PCI Express hops, gigabits of the cable. The speed of a PCI
 * Express lane is left out on purpose: idle GPUs drop to 2.5 GT/s and come back with the next job.
 */
export function capacitiesOf(link: LinkReport | undefined): LinkCapacities {
  const parts = new Map<string, number>()
  for (const { id, kind, lanes } of link?.hops ?? []) if (kind === 'real' && lanes !== undefined) parts.set(id, lanes)
  for (const way of ['toDevice', 'fromDevice'] as const) {
    const trained = link?.trained?.[way]
    if (trained !== undefined) parts.set(way, trained.lanes * trained.gbpsPerLane)
  }
  return parts
}

/** The best that was seen of each part so far. */
export function best(before: LinkCapacities, now: LinkCapacities): LinkCapacities {
  const parts = new Map(before)
  for (const [part, capacity] of now) parts.set(part, Math.max(capacity, parts.get(part) ?? 0))
  return parts
}

/** The worst part now over its best, 0 to 1; `undefined` when nothing is known about the link. */
export function ratioOf(now: LinkCapacities, peak: LinkCapacities): number | undefined {
  const ratios = [...now].map(([part, capacity]) => capacity / (peak.get(part) ?? capacity))
  return ratios.length === 0 ? undefined : Math.min(...ratios)
}
