import { EGpuErrorCode, systemClock } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { ClusterCoordinator } from '../../src/ownership/cluster-coordinator.ts'
import type { RemoteRun } from '../../src/remote/remote-run.ts'
import { MemoryCluster } from '../ownership/memory-cluster.ts'
import type { Connection, Mishap } from '../ownership/memory-cluster.ts'
import { twoHosts } from './hosts.ts'
import type { Host } from './hosts.ts'
import { tallied } from './tally.ts'
import type { Tally } from './tally.ts'

const steps = 150
const byteLength = 1_000_000
const tally = { steps, byteLength }
/** It outlasts any test: what ends a lease here is the test. */
const leaseSeconds = 600

interface Rig extends AsyncDisposable {
  readonly a: Host
  readonly b: Host
  readonly cluster: MemoryCluster
  readonly ofB: Connection
  /** Host A is dead to everybody: it reaches neither the cluster nor B, and its leases have run out. */
  readonly die: () => void
}

/** A keeps B supplied with checkpoints of work that it never finishes itself. */
async function rig(): Promise<Rig> {
  const cluster = new MemoryCluster(systemClock)
  const [ofA, ofB] = [cluster.connection(), cluster.connection()]
  const coordinator =
    (to: Connection) =>
    (self: string): ClusterCoordinator =>
      new ClusterCoordinator(to, { name: 'memory', self, leaseSeconds, clock: systemClock })
  const hosts = await twoHosts(
    { tally: { ...tally, haltAt: 75 }, coordinator: coordinator(ofA) },
    { tally, coordinator: coordinator(ofB) },
  )
  return {
    a: hosts.a,
    b: hosts.b,
    cluster,
    ofB,
    die: () => {
      ofA.isCut = true
      hosts.cut()
      cluster.expireAll()
    },
    [Symbol.asyncDispose]: () => hosts[Symbol.asyncDispose](),
  }
}

async function standby({ a, b }: Rig): Promise<RemoteRun> {
  const run = await a.remote.run('tally', 'job')
  while (run.run.latestCheckpoint === undefined) await new Promise((resolve) => setTimeout(resolve, 5))
  await run.standBy(b.peers.nodeId)
  return run
}

/** The next run that begins at a host. */
function arrival(host: Host): Promise<RemoteRun> {
  return new Promise((resolve) => host.remote.onRun(resolve))
}

describe('work of a host that dies', { timeout: 180_000 }, () => {
  const troubles: Readonly<Record<string, readonly Mishap[]>> = {
    'at the host that stood by, from its last checkpoint': [],
    'although the cluster did not answer at first': ['request lost', 'request lost', 'request late'],
    'although the answer that it is owned was lost': ['answer lost', 'answer lost'],
  }
  for (const [name, mishaps] of Object.entries(troubles))
    it(`goes on ${name}`, async () => {
      await using hosts = await rig()
      const run = await standby(hosts)
      const { progress } = run.replicated ?? { progress: 0 }
      expect(hosts.b.remote.runs).toEqual([])
      const arriving = arrival(hosts.b)
      hosts.ofB.expect(...mishaps)
      hosts.die()
      const there = await arriving
      expect(there.tenure.token).toBeGreaterThan(run.tenure.token)
      expect(await there.ended).toEqual({ kind: 'done' })
      expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
      expect((there.workload as Tally).restored[0]).toBeGreaterThanOrEqual(progress)
    })

  it('that comes back is refused: it neither restores nor commits any more', async () => {
    await using hosts = await rig()
    const run = await standby(hosts)
    const arriving = arrival(hosts.b)
    hosts.die()
    await arriving
    // Its own count says that it is the owner still; the cluster says what is true.
    await expect(hosts.a.coordinator.renew(run.tenure)).rejects.toMatchObject({ code: expect.any(String) as string })
    const ofA = hosts.cluster.connection()
    const again = new ClusterCoordinator(ofA, { name: 'memory', self: 'a', leaseSeconds, clock: systemClock })
    await expect(again.renew(run.tenure)).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    await expect(again.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.NotOwner })
  })

  it('is let alone while its owner lives, however long the standby waits', async () => {
    await using hosts = await rig()
    const run = await standby(hosts)
    hosts.ofB.isDeaf = true
    await new Promise((resolve) => setTimeout(resolve, 500))
    hosts.ofB.isDeaf = false
    expect(hosts.b.remote.runs).toEqual([])
    await run.close()
  })
})
