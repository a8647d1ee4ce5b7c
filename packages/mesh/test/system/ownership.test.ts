import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { etcdCoordinator } from '../../src/ownership/etcd-coordinator.ts'
import { etcdRegistry } from '../../src/registry/etcd-registry.ts'
import type { HostRegistry } from '../../src/registry/host-registry.ts'
import { noEtcd } from '../helpers/etcd.ts'
import { noNamespaces } from '../helpers/namespaces.ts'
import { chaos } from '../ownership/chaos.ts'
import { cuttable } from '../ownership/cuttable.ts'
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
      // Who watches counts the lease itself, and etcd may take a moment longer over it.
      expect((await acquireAtLast(b, 'job')).token).toBeGreaterThan(third.token)
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

  it('goes to who watches when its owner dies, whichever member of etcd is stopped at that moment', () =>
    withEtcd(async ({ coordinator, etcd }) => {
      const [owner, watcher] = [coordinator('owner', short), coordinator('watcher', short)]
      // One of them may be the leader.
      for (const member of etcd.members.slice(0, 2)) {
        const tenure = await acquireAtLast(owner, member)
        const stop = new AbortController()
        let isStopped = false
        for await (const state of watcher.watch(member, stop)) {
          if (!isStopped) etcd.signal(member, 'SIGSTOP')
          isStopped = true
          if (state.kind === 'free' && state.lastToken === tenure.token) stop.abort()
        }
        expect(performance.now()).toBeGreaterThan(tenure.validUntilMs)
        expect((await acquireAtLast(watcher, member)).token).toBeGreaterThan(tenure.token)
        etcd.signal(member, 'SIGCONT')
      }
    }))

  it('can be acquired again after a cut, although the connections from before and from meanwhile stay silent', () =>
    withEtcd(async ({ etcd }) => {
      await using network = await cuttable(etcd.endpoints)
      await using coordinator = etcdCoordinator({ hosts: network.endpoints, self: 'a', ...short })
      await acquireAtLast(coordinator, 'before')
      network.cut()
      for (let attempt = 0; attempt < 6; attempt += 1) {
        await expect(coordinator.acquire('meanwhile')).rejects.toMatchObject({ code: EGpuErrorCode.PeerLost })
      }
      network.heal()
      await acquireAtLast(coordinator, 'afterwards')
    }))

  it('is told by nobody once etcd lost its data: who held it stops, nobody begins, and both are told why', () =>
    withEtcd(async ({ coordinator, hold, etcd }) => {
      const [a, b] = [coordinator('a', short), coordinator('b')]
      await acquireAtLast(b, 'another')
      const holding = await hold(a, 'job')
      await etcd.loseData()
      while (!holding.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 50))
      expect(holding.signal.reason).toMatchObject({ code: EGpuErrorCode.StaleEpoch })
      for (const each of [a, b])
        await expect(acquireAtLast(each, 'job')).rejects.toMatchObject({
          code: EGpuErrorCode.MalformedData,
          message: expect.stringMatching(/went back from revision \d+ to 1: .*--bump-revision/) as unknown,
        })
    }))

  it('and who is there is told by the registry, also while a member is stopped', () =>
    withEtcd(async ({ etcd }) => {
      const open = (self: string): HostRegistry => etcdRegistry({ hosts: etcd.endpoints, self, leaseSeconds: 300 })
      await using a = open('a')
      await using b = open('b')
      await a.announce({ hostname: 'anna', targets: [] })
      const [member = ''] = etcd.members
      etcd.signal(member, 'SIGSTOP')
      const stop = new AbortController()
      const seen: string[] = []
      for await (const hosts of b.watch(stop)) {
        seen.push(hosts.map(({ hostname }) => hostname).join())
        if (seen.length === 1) await a.announce({ hostname: 'ann', targets: [] })
        else if (seen.at(-1) === 'ann') await a.close()
        else stop.abort()
      }
      expect(seen).toEqual(['anna', 'ann', ''])
      etcd.signal(member, 'SIGCONT')
    }))
})
