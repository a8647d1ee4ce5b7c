import { chaos, leaseSeconds, takeoverBarMs } from '../../packages/mesh/test/ownership/chaos.ts'
import type { Takeover } from '../../packages/mesh/test/ownership/chaos.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const schedules = 500

/**
 * Pairs of hosts contend for work through a real etcd of three members, in network namespaces, while hosts and etcd are
 * stopped, killed and cut off, and clocks are set. Takes about half an hour.
 */
export async function measure(): Promise<Figure[]> {
  const result = await chaos({ schedules, pairs: 8, seed: 2_026 })
  const { doubleOwners, staleCommits, staleAccepted, takeovers } = result
  const faults = Object.entries(result.faults).map(([kind, count]) => `${count} x ${kind}`)
  const possible = takeovers.filter(({ wasPossible }) => wasPossible)
  const worst = percentile(msOf(possible), 0.95)
  return [
    {
      figure: 'schedules with two active owners',
      value: doubleOwners,
      unit: 'schedules',
      against: `${result.schedules} schedules: ${faults.join(', ')}; ${result.changesOfHands} owners`,
      bar: '0',
      pass: doubleOwners === 0,
    },
    {
      figure: 'stale commits taken',
      value: staleAccepted,
      unit: 'commits',
      against: `${staleCommits} stale ones tried`,
      bar: '0',
      pass: staleAccepted === 0 && staleCommits > 0,
    },
    {
      figure: 'host killed to owner elsewhere, p95',
      value: worst,
      unit: 'ms',
      against: `lease of ${leaseSeconds} s + 2 s; ${possible.length} times, the other host well and etcd with a majority`,
      ratio: worst / takeoverBarMs,
      bar: '<= 1 x',
      pass: worst <= takeoverBarMs,
    },
    {
      figure: 'host killed to owner elsewhere, p95 of all',
      value: percentile(msOf(takeovers), 0.95),
      unit: 'ms',
      // No bar: it is as long as the troubles last.
      against: `${takeovers.length} times, also while the other host was stopped, dead or cut off, or etcd had no majority`,
    },
  ]
}

function msOf(takeovers: readonly Takeover[]): number[] {
  return takeovers.map(({ ms }) => ms)
}
