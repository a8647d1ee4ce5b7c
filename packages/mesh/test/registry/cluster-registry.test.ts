import { RuntimeKind } from '@egpu/core'
import type { ComputeTarget } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { describe, expect, it } from 'vitest'
import { ClusterRegistry } from '../../src/registry/cluster-registry.ts'
import type { RegisteredHost } from '../../src/registry/host-registry.ts'
import { placement } from '../../src/registry/placement.ts'
import { MemoryCluster } from '../ownership/memory-cluster.ts'
import type { Connection } from '../ownership/memory-cluster.ts'

const leaseSeconds = 5
const target: ComputeTarget = {
  id: 'gpu',
  name: 'GPU',
  kind: 'gpu',
  runtime: RuntimeKind.Cuda,
  removable: true,
  memoryBytes: 8e9,
}

function rig(): {
  readonly clock: VirtualClock
  readonly cluster: MemoryCluster
  readonly host: (self: string) => { readonly registry: ClusterRegistry; readonly connection: Connection }
} {
  const clock = new VirtualClock()
  const cluster = new MemoryCluster(clock)
  return {
    clock,
    cluster,
    host: (self) => {
      const connection = cluster.connection()
      return { registry: new ClusterRegistry(connection, { self, leaseSeconds, clock }), connection }
    },
  }
}

describe('a host in the registry', () => {
  it('is there with its targets for as long as it lives, and gone at once when it leaves', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    await a.registry.announce({ hostname: 'anna', targets: [target] })
    await clock.advance(60_000)
    expect(await b.registry.hosts()).toEqual([{ nodeId: 'a', hostname: 'anna', targets: [target] }])
    await a.registry.close()
    await a.registry.close()
    expect(await b.registry.hosts()).toEqual([])
  })

  it('is gone after the lease when it died, and back when it was only cut off', async () => {
    const { clock, host } = rig()
    const [a, b] = [host('a'), host('b')]
    await a.registry.announce({ hostname: 'anna', targets: [] })
    a.connection.isCut = true
    await clock.advance(leaseSeconds * 1_000)
    expect(await b.registry.hosts()).toEqual([])
    a.connection.isCut = false
    await clock.advance(1_000)
    expect(await b.registry.hosts()).toMatchObject([{ nodeId: 'a' }])
    await a.registry.close()
  })

  it('says what changed, and those who watch hear of changes that come together once', async () => {
    const { clock, host } = rig()
    const [a, b, c] = [host('a'), host('b'), host('c')]
    const stop = new AbortController()
    const seen: (readonly RegisteredHost[])[] = []
    void (async () => {
      for await (const hosts of c.registry.watch({ signal: stop.signal })) seen.push(hosts)
    })()
    await clock.advance(0)
    await a.registry.announce({ hostname: 'anna', targets: [] })
    await b.registry.announce({ hostname: 'bob', targets: [] })
    await a.registry.announce({ hostname: 'anna', targets: [target] })
    await clock.advance(1_000)
    expect(seen.map((hosts) => hosts.map(({ hostname, targets }) => `${hostname} ${targets.length}`))).toEqual([
      [],
      ['anna 1', 'bob 0'],
    ])
    // What is only kept alive is no news.
    await clock.advance(60_000)
    expect(seen).toHaveLength(2)
    stop.abort()
    await a.registry.close()
    await b.registry.close()
  })

  it('is left out when its entry makes no sense, and keeps nobody else from being listed', async () => {
    const { cluster, host } = rig()
    const { registry } = host('a')
    await registry.announce({ hostname: 'anna\u001b[2J', targets: [] })
    const put = [
      '{',
      '[]',
      '{"hostname":7,"targets":[]}',
      '{"hostname":"x","targets":[{"id":"gpu"}]}',
      '{"hostname":"x"}',
    ]
    cluster.apply({ when: {}, put: put.map((value, index) => ({ key: `hosts/odd-${index}`, value })) })
    const hosts = await registry.hosts()
    expect(hosts.map(({ nodeId }) => nodeId)).toEqual(['a'])
    expect(hosts[0]?.hostname).not.toContain('\u001b')
    await registry.close()
  })
})

describe('where work goes', () => {
  const hosts = Array.from({ length: 20 }, (_, index) => ({
    nodeId: `host-${index}`,
    hostname: `host-${index}`,
    targets: index % 2 === 0 ? [target] : [],
  }))
  const order = (list: readonly RegisteredHost[], workloadId: string): string[] =>
    placement(list, { workloadId, needs: { runtimes: [RuntimeKind.Cuda] } }).map(({ nodeId }) => nodeId)

  it('is decided alike by all, whatever order they list the hosts in, among those that can take it', () => {
    const first = order(hosts, 'job')
    expect(order(hosts.toReversed(), 'job')).toEqual(first)
    expect(first).toHaveLength(10)
    expect(first.every((nodeId) => Number(nodeId.slice(5)) % 2 === 0)).toBe(true)
  })

  it('is spread out, and only the work of a host that goes finds another place', () => {
    const works = Array.from({ length: 200 }, (_, index) => `job-${index}`)
    const before = works.map((work) => order(hosts, work))
    const shares = new Map<string, number>()
    for (const [first] of before) shares.set(first as string, (shares.get(first as string) ?? 0) + 1)
    expect(shares.size).toBe(10)
    const left = hosts.filter(({ nodeId }) => nodeId !== 'host-4')
    for (const [index, work] of works.entries())
      expect(order(left, work)).toEqual(before[index]?.filter((nodeId) => nodeId !== 'host-4'))
  })
})
