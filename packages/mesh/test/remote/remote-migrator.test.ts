import { EGpuErrorCode } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import type { RemoteRun } from '../../src/remote/remote-run.ts'
import { twoHosts } from './hosts.ts'
import type { Host } from './hosts.ts'
import { tallied } from './tally.ts'
import type { Tally } from './tally.ts'

const steps = 150
const byteLength = 3_000_000
const tally = { steps, byteLength }
/** On the first host: so that it is not done before it is moved, however slow the machine. */
const half = { ...tally, haltAt: 75 }

/** The run that comes to a host from another one. */
function arrival(host: Host): Promise<RemoteRun> {
  return new Promise((resolve) => host.remote.onRun(resolve))
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe('work that is moved to a peer', { timeout: 180_000 }, () => {
  it('goes on there from where it was, and its result is the same bit for bit', async () => {
    await using hosts = await twoHosts({ tally: half }, { tally })
    const { a, b } = hosts
    const arriving = arrival(b)
    const run = await a.remote.run('tally', 'job')
    await until(() => run.workload.progress >= 30)
    const handover = await run.moveToPeer(b.peers.nodeId)
    expect(handover.progress).toBeGreaterThanOrEqual(30)
    expect(await run.ended).toEqual({ kind: 'handed-over', peerId: b.peers.nodeId })
    expect(a.remote.runs).toEqual([])
    const there = await arriving
    expect(await there.ended).toEqual({ kind: 'done' })
    expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
    expect((there.workload as Tally).restored).toEqual([handover.progress])
  })

  it('needs no eGPU here any more: the last checkpoint goes', async () => {
    await using hosts = await twoHosts({ tally: half }, { tally })
    const { a, b } = hosts
    const arriving = arrival(b)
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    a.driver.machine.enclosures[0]?.yank()
    await until(() => run.run.where === undefined)
    await run.moveToPeer(b.peers.nodeId)
    const there = await arriving
    await there.ended
    expect((there.workload as Tally).result).toBe(tallied(byteLength, steps))
  })

  it('is not sent where it does not fit: no byte moves, and it goes on here', async () => {
    await using hosts = await twoHosts(
      { tally: { ...tally, needs: { memoryBytes: 2 ** 20 } } },
      { memoryBytes: 2 ** 19 },
    )
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await expect(run.moveToPeer(b.peers.nodeId)).rejects.toMatchObject({
      code: EGpuErrorCode.TargetIncompatible,
      message: expect.stringContaining('are needed; nothing was sent') as string,
    })
    expect(await b.store.list('job')).toEqual([])
    expect(await run.ended).toEqual({ kind: 'done' })
    expect((run.workload as Tally).result).toBe(tallied(byteLength, steps))
  })

  it('comes back when the peer lied about what it can take', async () => {
    await using hosts = await twoHosts({ tally: { ...tally, stepMs: 50 } }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    b.driver.machine.enclosures[0]?.yank()
    // It says that it fits, from a list that is out of date.
    const lie = b.peers.connections()[0]?.handle('migrate/fit', () => ({ misfit: null }))
    await expect(run.moveToPeer(b.peers.nodeId)).rejects.toMatchObject({ code: EGpuErrorCode.MigrationFailed })
    lie?.()
    expect(await run.ended).toEqual({ kind: 'done' })
    expect((run.workload as Tally).result).toBe(tallied(byteLength, steps))
  })

  it('is refused with a reason when the peer has no code for it', async () => {
    await using hosts = await twoHosts({ tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    const other = { ...run.tenure, workloadId: 'job', kind: 'constructor', token: 1 }
    await expect(a.peers.request(b.peers.nodeId, 'migrate/take', other)).rejects.toMatchObject({
      code: EGpuErrorCode.TargetIncompatible,
    })
  })
})

describe('a paired peer that names a token higher than any', { timeout: 180_000 }, () => {
  const lie = (workloadId: string) => ({
    workloadId,
    kind: 'tally',
    token: 2 ** 53 - 1,
    offerId: 'x',
    address: { port: 1 },
    manifest: { id: 'a'.repeat(64), byteLength: 1 },
  })
  const lies = ['migrate/take', 'migrate/replica', 'migrate/forget']

  it('neither takes work that runs nor shuts its owner out', async () => {
    await using hosts = await twoHosts({ tally: { ...tally, stepMs: 20 } }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    for (const type of lies) {
      await expect(b.peers.request(a.peers.nodeId, type, lie('job'))).rejects.toMatchObject({
        code: EGpuErrorCode.StaleEpoch,
      })
    }
    const before = run.run.latestCheckpoint?.progress ?? 0
    await until(() => (run.run.latestCheckpoint?.progress ?? 0) > before)
    await run.ended
    expect(a.remote.runs).toEqual([])
  })

  it('neither replaces nor removes checkpoints of work that is not its own, and whose it is goes on from them', async () => {
    await using hosts = await twoHosts({ tally }, { tally: half })
    const { a, b } = hosts
    const run = await b.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint?.progress === 75)
    await run.close()
    const copies = await b.store.list('job')
    for (const type of ['migrate/replica', 'migrate/forget']) {
      await expect(a.peers.request(b.peers.nodeId, type, lie('job'))).rejects.toMatchObject({
        code: EGpuErrorCode.NotOwner,
      })
    }
    expect(await b.store.list('job')).toEqual(copies)
    const again = await b.remote.run('tally', 'job')
    await again.run.started
    expect(again.workload.progress).toBeGreaterThanOrEqual(75)
  })
})

describe('a standby', { timeout: 180_000 }, () => {
  it('has every checkpoint, and keeps two', async () => {
    await using hosts = await twoHosts({ tally: half }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    await run.standBy(b.peers.nodeId)
    await until(() => run.replicated?.progress === 75)
    const copies = await b.store.list('job')
    expect(copies[0]?.progress).toBe(75)
    expect(copies.length).toBeLessThanOrEqual(2)
  })

  it('keeps nothing of work that is done', async () => {
    await using hosts = await twoHosts({ tally: { ...tally, stepMs: 50 } }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    await run.standBy(b.peers.nodeId)
    expect(await b.store.list('job')).not.toEqual([])
    await run.ended
    expect(await b.store.list('job')).toEqual([])
  })

  it('takes no checkpoint that carries a stale token', async () => {
    await using hosts = await twoHosts({ tally: half }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    const before = run.tenure.token
    await run.moveToPeer(b.peers.nodeId)
    const note = {
      workloadId: 'job',
      kind: 'tally',
      token: before,
      offerId: 'x',
      address: { port: 1 },
      manifest: { id: 'a'.repeat(64), byteLength: 1 },
    }
    await expect(a.peers.request(b.peers.nodeId, 'migrate/replica', note)).rejects.toMatchObject({
      code: EGpuErrorCode.StaleEpoch,
    })
    await expect(a.remote.migrator.checkpoints.acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.StaleEpoch,
    })
  })

  it('is never promoted by the embedded coordinator: it says what would make it so', async () => {
    await using hosts = await twoHosts({ tally: half }, { tally })
    const { a, b } = hosts
    const run = await a.remote.run('tally', 'job')
    await until(() => run.run.latestCheckpoint !== undefined)
    await run.standBy(b.peers.nodeId)
    hosts.cut()
    await until(() => b.peers.connections().length === 0)
    await expect(b.remote.run('tally', 'job')).rejects.toMatchObject({
      code: EGpuErrorCode.NotOwner,
      message: expect.stringContaining('witness') as string,
    })
    // A person knows better.
    const tenure = await b.coordinator.acquire('job', { ownerIsDead: true })
    expect(tenure.token).toBe(run.tenure.token + 1)
  })
})
