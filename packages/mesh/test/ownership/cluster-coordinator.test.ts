import { EGpuErrorCode } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { describe, expect, it } from 'vitest'
import { ClusterCoordinator } from '../../src/ownership/cluster-coordinator.ts'
import type { OwnershipState } from '../../src/ownership/coordinator.ts'
import { MemoryCluster } from './memory-cluster.ts'
import type { Connection } from './memory-cluster.ts'

const leaseSeconds = 5
const stale = { code: EGpuErrorCode.StaleEpoch }
const notOwner = { code: EGpuErrorCode.NotOwner }
const peerLost = { code: EGpuErrorCode.PeerLost }

interface Host {
  readonly coordinator: ClusterCoordinator
  readonly connection: Connection
}

function rig(): {
  readonly clock: VirtualClock
  readonly cluster: MemoryCluster
  readonly host: (self: string) => Host
} {
  const clock = new VirtualClock()
  const cluster = new MemoryCluster(clock)
  const host = (self: string): Host => {
    const connection = cluster.connection()
    const coordinator = new ClusterCoordinator(connection, { name: 'memory', self, leaseSeconds, clock })
    return { coordinator, connection }
  }
  return { clock, cluster, host }
}

/** What a watch has said so far. */
function heard({ coordinator }: Host, signal: AbortSignal): OwnershipState[] {
  const states: OwnershipState[] = []
  void (async () => {
    for await (const state of coordinator.watch('job', { signal })) states.push(state)
  })()
  return states
}

describe('an acquisition', () => {
  it('whose answer was lost is known for its own on the next attempt at another member', async () => {
    const { host } = rig()
    const a = host('a')
    // A client that asks the next member after a silence does just this.
    const transact = a.connection.transact.bind(a.connection)
    let isFirst = true
    a.connection.transact = async (transaction) => {
      const outcome = await transact(transaction)
      if (transaction.put === undefined || !isFirst) return outcome
      isFirst = false
      return transact(transaction)
    }
    const tenure = await a.coordinator.acquire('job')
    expect(tenure.owner).toBe('a')
    await expect(a.coordinator.renew(tenure)).resolves.toMatchObject({ token: tenure.token })
  })

  it('whose answer never came is taken up by the next one, and by nobody else meanwhile', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    a.connection.expect('answer lost')
    await expect(a.coordinator.acquire('job')).rejects.toMatchObject(peerLost)
    await expect(b.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    await clock.advance(1_000)
    const tenure = await a.coordinator.acquire('job')
    expect(tenure).toMatchObject({ owner: 'a', validUntilMs: 1_000 + leaseSeconds * 950 })
    await expect(b.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    // Another process of this host knows nothing of it.
    await expect(host('a').coordinator.acquire('job')).rejects.toMatchObject(notOwner)
  })

  it('whose request never arrived is made anew', async () => {
    const { host } = rig()
    const a = host('a')
    a.connection.expect('request lost')
    await expect(a.coordinator.acquire('job')).rejects.toMatchObject(peerLost)
    await expect(a.coordinator.acquire('job')).resolves.toMatchObject({ owner: 'a' })
  })

  it('that arrives late, when another host has it, changes nothing', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    a.connection.expect('request late')
    await expect(a.coordinator.acquire('job')).rejects.toMatchObject(peerLost)
    const tenure = await b.coordinator.acquire('job')
    a.connection.deliver()
    await clock.advance(1_000)
    await expect(b.coordinator.renew(tenure)).resolves.toMatchObject({ token: tenure.token })
    await expect(a.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
  })

  it('is refused while the owner renews, however long that is', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    let tenure = await a.coordinator.acquire('job')
    for (let round = 0; round < 10; round += 1) {
      await clock.advance(2_000)
      tenure = await a.coordinator.renew(tenure)
      await expect(b.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    }
  })

  it('of what was handed to another host is for that host alone, and for everybody if it does not come', async () => {
    const { clock, host } = rig()
    const [a, b, c] = [host('a'), host('b'), host('c')]
    const first = await a.coordinator.acquire('job')
    const given = await a.coordinator.transfer(first, 'b')
    await expect(c.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    await expect(a.coordinator.renew(first)).rejects.toMatchObject(stale)
    expect((await b.coordinator.acquire('job')).token).toBeGreaterThan(given.token)
    await clock.advance(leaseSeconds * 1_000)
    expect((await c.coordinator.acquire('job')).token).toBeGreaterThan(given.token)
  })
})

describe('a renewal', () => {
  it('whose answer was lost is followed by one that goes through', async () => {
    const { clock, host } = rig()
    const a = host('a')
    const tenure = await a.coordinator.acquire('job')
    await clock.advance(1_000)
    a.connection.expect('answer lost')
    await expect(a.coordinator.renew(tenure)).rejects.toMatchObject(peerLost)
    await clock.advance(1_000)
    const renewed = await a.coordinator.renew(tenure)
    expect(renewed).toMatchObject({ token: tenure.token, validUntilMs: 2_000 + leaseSeconds * 950 })
  })

  it('that was given up and arrives late does not shorten the one after it', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const tenure = await a.coordinator.acquire('job')
    await clock.advance(1_000)
    a.connection.expect('request late')
    await expect(a.coordinator.renew(tenure)).rejects.toMatchObject(peerLost)
    await clock.advance(3_000)
    const { validUntilMs } = await a.coordinator.renew(tenure)
    // Its lease began at 1 s and would end at 6 s, before the owner stops at 8.75 s.
    a.connection.deliver()
    await clock.advance(validUntilMs - clock.now() - 1)
    await expect(b.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    await clock.advance(leaseSeconds * 1_000)
    await expect(b.coordinator.acquire('job')).resolves.toMatchObject({ owner: 'b' })
  })

  it('of a lease that ran out is refused, also when nobody took over and the cluster still knows the lease', async () => {
    const { clock, cluster, host } = rig()
    const a = host('a')
    const tenure = await a.coordinator.acquire('job')
    await clock.advance(leaseSeconds * 1_000 - 500)
    cluster.changeLeader()
    await clock.advance(500)
    await expect(a.coordinator.renew(tenure)).rejects.toMatchObject(stale)
  })

  it('is refused where another host has the same token: a cluster that was restored gives it twice', async () => {
    const { clock, host } = rig()
    const [a, restored] = [host('a'), rig().host('b')]
    const tenure = await a.coordinator.acquire('job')
    // What a asks from now on is answered by the cluster that b is in.
    a.connection.transact = restored.connection.transact.bind(restored.connection)
    a.connection.lease = restored.connection.lease.bind(restored.connection)
    const other = await restored.coordinator.acquire('job')
    expect(other.token).toBe(tenure.token)
    await clock.advance(1_000)
    await expect(a.coordinator.renew(tenure)).rejects.toMatchObject(stale)
  })

  it('is refused from the moment another host took over', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const tenure = await a.coordinator.acquire('job')
    await clock.advance(leaseSeconds * 1_000)
    const second = await b.coordinator.acquire('job')
    expect(second.token).toBeGreaterThan(tenure.token)
    await expect(a.coordinator.renew(tenure)).rejects.toMatchObject(stale)
    await a.coordinator.revoke(tenure)
    await expect(b.coordinator.renew(second)).resolves.toMatchObject({ token: second.token })
  })
})

describe('a host that watches', () => {
  it('takes over after one lease although every new leader of the cluster begins all leases anew', async () => {
    const { clock, cluster, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const stop = new AbortController()
    const tenure = await a.coordinator.acquire('job')
    const states = heard(b, stop.signal)
    await clock.advance(0)
    for (let second = 0; second < 4; second += 1) {
      await clock.advance(1_000)
      cluster.changeLeader()
    }
    await clock.advance(999)
    expect(states.map(({ kind }) => kind)).toEqual(['owned'])
    await clock.advance(1)
    expect(states.map(({ kind }) => kind)).toEqual(['owned', 'free'])
    expect(clock.now()).toBeGreaterThan(tenure.validUntilMs)
    const second = await b.coordinator.acquire('job')
    expect(second.token).toBeGreaterThan(tenure.token)
    stop.abort()
  })

  it('does not when the owner renewed a moment ago', async () => {
    const { clock, cluster, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const stop = new AbortController()
    const tenure = await a.coordinator.acquire('job')
    const states = heard(b, stop.signal)
    await clock.advance(leaseSeconds * 1_000 - 300)
    cluster.changeLeader()
    // Unheard by the watch, which is deaf, and known to the transaction all the same.
    b.connection.isDeaf = true
    const renewed = await a.coordinator.renew(tenure)
    await clock.advance(400)
    expect(states.map(({ kind }) => kind)).toEqual(['owned'])
    await expect(b.coordinator.acquire('job')).rejects.toMatchObject(notOwner)
    await expect(a.coordinator.renew(renewed)).resolves.toMatchObject({ token: tenure.token })
    stop.abort()
  })

  it('hears of a change within a fifth of a lease although its watch is deaf', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const stop = new AbortController()
    const tenure = await a.coordinator.acquire('job')
    const states = heard(b, stop.signal)
    await clock.advance(0)
    b.connection.isDeaf = true
    await a.coordinator.revoke(tenure)
    await clock.advance(1_000)
    expect(states.at(-1)).toEqual({ kind: 'free', lastToken: tenure.token })
    stop.abort()
  })

  it('says nothing while it is cut off, and what became of it afterwards', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    const stop = new AbortController()
    const states = heard(b, stop.signal)
    await clock.advance(0)
    expect(states).toEqual([{ kind: 'free', lastToken: 0 }])
    b.connection.isCut = true
    const tenure = await a.coordinator.acquire('job')
    await clock.advance(2_000)
    expect(states).toHaveLength(1)
    b.connection.isCut = false
    await clock.advance(1_000)
    expect(states.at(-1)).toMatchObject({ kind: 'owned', ownership: { owner: 'a', token: tenure.token } })
    stop.abort()
  })
})

it('does not take what another program wrote for a record of an owner', async () => {
  const { cluster, host } = rig()
  cluster.apply({ when: {}, put: [{ key: 'owner/job/', value: '{"owner":1}' }] })
  await expect(host('a').coordinator.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.MalformedData })
})
