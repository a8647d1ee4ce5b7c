import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { noEtcd } from '../helpers/etcd.ts'
import { noNamespaces } from '../helpers/namespaces.ts'
import { chaos } from '../ownership/chaos.ts'
import { acquireAtLast, withEtcd } from '../ownership/with-etcd.ts'

/** etcd makes at least one and a half election timeouts of it. */
const short = { leaseSeconds: 2 }
const reason = noNamespaces ?? noEtcd

describe.skipIf(reason !== undefined)(`ownership in a real etcd${reason === undefined ? '' : ` (${reason})`}`, () => {
  it('never has two owners and takes no stale token, whatever is stopped, killed or cut off', async () => {
    let [changesOfHands, acceptedCommits] = [0, 0]
    // Fewer, and nothing was tested: a slow machine gets there with more schedules.
    for (let seed = 8; changesOfHands <= 4 || acceptedCommits <= 50; seed += 1) {
      const result = await chaos({ schedules: 8, pairs: 4, seed })
      expect(result.doubleOwners).toBe(0)
      expect(result.staleAccepted).toBe(0)
      changesOfHands += result.changesOfHands
      acceptedCommits += result.acceptedCommits
    }
  })

  it('changes hands by transfer, by release, and by a lease that ran out, each time with a higher token', () =>
    withEtcd(async ({ coordinator }) => {
      const [a, b] = [coordinator('a'), coordinator('b')]
      const first = await a.acquire('job')
      await expect(b.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.NotOwner })
      const renewed = await a.renew(first)
      expect(renewed.token).toBe(first.token)
      expect(renewed.validUntilMs).toBeGreaterThan(first.validUntilMs)
      const given = await a.transfer(renewed, 'b')
      expect(given.token).toBeGreaterThan(first.token)
      await expect(a.renew(renewed)).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
      await expect(a.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.NotOwner })
      const second = await b.acquire('job')
      expect(second.token).toBeGreaterThan(given.token)
      await b.revoke(second)
      const third = await acquireAtLast(coordinator('a', short), 'job')
      expect(third.token).toBeGreaterThan(second.token)
      // Not renewed: it runs out, and not before it says.
      const stop = new AbortController()
      for await (const state of b.watch('job', stop)) {
        if (state.kind !== 'free') continue
        expect(performance.now()).toBeGreaterThan(third.validUntilMs)
        expect(state.lastToken).toBe(third.token)
        stop.abort()
      }
      await expect(a.renew(third)).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
      expect((await b.acquire('job')).token).toBeGreaterThan(third.token)
    }))

  it('an owner without a majority of etcd stops before its lease ends', () =>
    withEtcd(async ({ coordinator, hold, etcd }) => {
      const holding = await hold(coordinator('a', short), 'job')
      const { members } = etcd
      for (const member of members.slice(0, 2)) etcd.signal(member, 'SIGSTOP')
      while (!holding.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 50))
      expect(() => holding.assertHeld()).toThrow(expect.objectContaining({ code: EGpuErrorCode.StaleEpoch }) as Error)
      for (const member of members.slice(0, 2)) etcd.signal(member, 'SIGCONT')
    }))
})
