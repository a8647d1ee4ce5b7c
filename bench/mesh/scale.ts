import { leaseSeconds, simulate } from '../../packages/mesh/test/registry/simulation.ts'
import type { ScaleResult } from '../../packages/mesh/test/registry/simulation.ts'
import type { Figure } from '../figure.ts'

const counts = [10, 100, 1_000] as const

/**
 * Hosts on one cluster in virtual time, with the package's own registry, placement and coordinator: do they agree, how soon,
 * and what does one host cost as their number grows?
 */
export async function measure(): Promise<Figure[]> {
  const results: ScaleResult[] = []
  for (const count of counts) results.push(await simulate(count))
  const [small, , large] = results as [ScaleResult, ScaleResult, ScaleResult]
  const limitMs = leaseSeconds * 1_000 + 2_000
  const wrong = results.reduce((sum, { disagreements, doubleOwners }) => sum + disagreements + doubleOwners, 0)
  return [
    within('last of 1,000 hosts started, until all list all', large.membersAfterMs, 2_000),
    within('100 of 1,000 hosts dead, until the others know', large.lossKnownAfterMs, limitMs),
    within('100 of 1,000 hosts dead, until all their work is owned', large.takenOverAfterMs, limitMs),
    {
      figure: 'work that hosts disagreed about, or that two held',
      value: wrong,
      unit: 'times',
      against: `${results.reduce((sum, { works }) => sum + works, 0)} works on 10, 100 and 1,000 hosts`,
      bar: '0',
      pass: wrong === 0,
    },
    grows('requests per lease of a host while nothing changes', small.idleRequests, large.idleRequests, 'constant'),
    grows('more of them per work it runs', small.ownerRequests, large.ownerRequests, 'constant'),
    grows('more of them per work it stands by for', small.standbyRequests, large.standbyRequests, 'constant'),
    grows('requests of a host while all start', small.startRequests, large.startRequests, 'logarithmic'),
    // Each host that comes is news for each that watches.
    grows('changes a host hears of while all start', small.startNotices, large.startNotices, 'linear'),
  ]
}

function within(figure: string, value: number, limitMs: number): Figure {
  return {
    figure,
    value,
    unit: 'ms of virtual time',
    against: `${limitMs} ms`,
    ratio: value / limitMs,
    bar: `<= ${limitMs} ms`,
    pass: value <= limitMs,
  }
}

/** From 10 to 1,000 hosts: by how much may it grow? */
function grows(figure: string, small: number, large: number, how: 'constant' | 'logarithmic' | 'linear'): Figure {
  const most = { constant: 1.5, logarithmic: Math.log(1_000) / Math.log(10), linear: 999 / 9 }[how]
  const ratio = large / small
  return {
    figure,
    value: large,
    unit: 'with 1,000 hosts',
    against: `${small.toFixed(1)} with 10 hosts`,
    ratio,
    bar: `grows no faster than ${how}: <= ${most.toFixed(1)} x`,
    pass: ratio <= most * 1.05,
  }
}
