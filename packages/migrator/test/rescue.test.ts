import { seededRandom } from '@egpu/driver-sim'
import { rescuePlan } from '@egpu/migrator'
import type { RescueCandidate } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'

const limits = { withinMs: 1_000, bytesPerSecond: 1_000 }

describe('rescuePlan', () => {
  it('saves all where there is time for all, what brings most per byte first', () => {
    const plan = rescuePlan(
      [
        { id: 'large', bytes: 600, gain: 10 },
        { id: 'small', bytes: 100, gain: 5 },
      ],
      limits,
    )
    expect(plan).toEqual(['small', 'large'])
  })

  it('drops what cannot be finished: 290 GB in ten minutes over a thin cable', () => {
    const huge: RescueCandidate = { id: 'huge', bytes: 290e9, gain: 1e9 }
    const tiny: RescueCandidate = { id: 'tiny', bytes: 1e9, gain: 1 }
    expect(rescuePlan([huge, tiny], { withinMs: 72_000, bytesPerSecond: 2.7e9 })).toEqual(['tiny'])
    expect(rescuePlan([huge, tiny], { withinMs: 600_000, bytesPerSecond: 2.7e9 })).toEqual(['huge', 'tiny'])
    expect(rescuePlan([huge, tiny], { withinMs: 0, bytesPerSecond: 2.7e9 })).toEqual([])
  })

  it('two that fit together beat one that brings more than either', () => {
    const plan = rescuePlan(
      [
        { id: 'one', bytes: 900, gain: 10 },
        { id: 'a', bytes: 500, gain: 6 },
        { id: 'b', bytes: 400, gain: 6 },
      ],
      limits,
    )
    expect([...plan].sort()).toEqual(['a', 'b'])
  })

  it('is as good as trying every set, but for the rounding of time, and always fits', () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const random = seededRandom(seed)
      const candidates = Array.from({ length: 1 + random.integer(9) }, (_, i) => ({
        id: `w${i}`,
        bytes: random.between(1, 800),
        freezeMs: random.between(0, 100),
        gain: random.between(0, 10),
      }))
      const msOf = (ids: readonly string[]): number =>
        candidates.filter(({ id }) => ids.includes(id)).reduce((sum, { bytes, freezeMs }) => sum + bytes + freezeMs, 0)
      const gainOf = (ids: readonly string[]): number =>
        candidates.filter(({ id }) => ids.includes(id)).reduce((sum, { gain }) => sum + gain, 0)
      const plan = rescuePlan(candidates, limits)
      expect(msOf(plan)).toBeLessThanOrEqual(1_000)
      let best = 0
      for (let set = 0; set < 2 ** candidates.length; set += 1) {
        const ids = candidates.filter((_, i) => (set & (1 << i)) !== 0).map(({ id }) => id)
        // A slice of time a candidate is what rounding up may cost.
        if (msOf(ids) <= 1_000 - candidates.length) best = Math.max(best, gainOf(ids))
      }
      expect(gainOf(plan)).toBeGreaterThanOrEqual(best - 1e-9)
    }
  })
})
