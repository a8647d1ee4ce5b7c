import { EGpuErrorCode } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { describe, expect, it } from 'vitest'
import { ClusterCoordinator } from '../../src/ownership/cluster-coordinator.ts'
import { Holding } from '../../src/ownership/holding.ts'
import { MemoryCluster } from './memory-cluster.ts'
import type { Connection } from './memory-cluster.ts'

const leaseSeconds = 5
const stale = { code: EGpuErrorCode.StaleEpoch }

async function held(): Promise<{
  readonly clock: VirtualClock
  readonly cluster: MemoryCluster
  readonly connection: Connection
  readonly holding: Holding
  /** Another host. */
  readonly other: ClusterCoordinator
}> {
  const clock = new VirtualClock()
  const cluster = new MemoryCluster(clock)
  const connection = cluster.connection()
  const make = (self: string, to: Connection): ClusterCoordinator =>
    new ClusterCoordinator(to, { name: 'memory', self, leaseSeconds, clock })
  const coordinator = make('a', connection)
  const holding = new Holding(coordinator, await coordinator.acquire('job'), clock)
  return { clock, cluster, connection, holding, other: make('b', cluster.connection()) }
}

describe('an ownership that is held', () => {
  it('is renewed for as long as the coordinator can be reached', async () => {
    const { clock, holding, other } = await held()
    const { token } = holding.tenure
    await clock.advance(60_000)
    expect(holding.isHeld).toBe(true)
    expect(holding.tenure).toMatchObject({ token })
    await expect(other.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.NotOwner })
    await holding.release()
  })

  it('outlasts a time without the coordinator that is shorter than the lease', async () => {
    const { clock, connection, holding } = await held()
    connection.isCut = true
    await clock.advance(3_000)
    connection.isCut = false
    await clock.advance(10_000)
    expect(holding.isHeld).toBe(true)
    await holding.release()
  })

  it('is over before anybody else can have it, when the coordinator cannot be reached', async () => {
    const { clock, connection, holding, other } = await held()
    connection.isCut = true
    const endMs = holding.tenure.validUntilMs
    await clock.advance(endMs - clock.now())
    expect(holding.signal.aborted).toBe(true)
    expect(holding.signal.reason).toMatchObject(stale)
    await expect(other.acquire('job')).rejects.toMatchObject({ code: EGpuErrorCode.NotOwner })
    await clock.advance(1_000)
    await expect(other.acquire('job')).resolves.toMatchObject({ owner: 'b' })
    expect(() => holding.assertHeld()).toThrow(expect.objectContaining(stale) as Error)
  })

  it('is over by the clock also in a process that was stopped and whose timers are late', async () => {
    const { clock, cluster } = await held()
    let aheadMs = 0
    // This host's timers stand still while time goes on.
    const stopped = { now: () => clock.now() + aheadMs, sleep: clock.sleep.bind(clock) }
    const coordinator = new ClusterCoordinator(cluster.connection(), {
      name: 'm',
      self: 'c',
      leaseSeconds,
      clock: stopped,
    })
    await using holding = new Holding(coordinator, await coordinator.acquire('another'), stopped)
    aheadMs = leaseSeconds * 1_000
    expect(holding.signal.aborted).toBe(false)
    expect(holding.isHeld).toBe(false)
    expect(() => holding.assertHeld()).toThrow(expect.objectContaining(stale) as Error)
    expect(holding.signal.aborted).toBe(true)
  })

  it('is over when the host slept for longer than the lease, however little its clock counted', async () => {
    const { clock, cluster } = await held()
    let sleptMs = 0
    const meter = (): { sleptMs(): number } => {
      const before = sleptMs
      return { sleptMs: () => sleptMs - before }
    }
    const coordinator = new ClusterCoordinator(cluster.connection(), { name: 'm', self: 'c', leaseSeconds, clock })
    await using holding = new Holding(coordinator, await coordinator.acquire('another'), clock, meter)
    await clock.advance(1_000)
    sleptMs = 1_500
    holding.assertHeld()
    // Renewed meanwhile, so that sleep of before does not count any more.
    await clock.advance(2_000)
    sleptMs = 4_000
    holding.assertHeld()
    sleptMs = 600_000
    expect(holding.isHeld).toBe(false)
    expect(() => holding.assertHeld()).toThrow(/ran out while this host slept for 5\d{5} ms/)
    expect(holding.signal.aborted).toBe(true)
  })

  it('that could not be renewed says why', async () => {
    const { clock, connection, holding } = await held()
    connection.isCut = true
    await clock.advance(leaseSeconds * 1_000)
    expect(holding.signal.reason).toMatchObject({ message: expect.stringMatching(/in time \(cut off\);/) as unknown })
  })

  it('does not live on by an answer that came after the lease had ended', async () => {
    const { clock, connection, holding, other } = await held()
    const { renewed, answer } = slowed(connection)
    await clock.advance(holding.tenure.validUntilMs - clock.now())
    expect(holding.isHeld).toBe(false)
    expect(renewed()).toBe(true)
    answer()
    await clock.advance(0)
    expect(holding.isHeld).toBe(false)
    await clock.advance(leaseSeconds * 1_000)
    await expect(other.acquire('job')).resolves.toMatchObject({ owner: 'b' })
  })

  it('handed over is over before the word goes out, and the next host has a higher token', async () => {
    const { holding, other } = await held()
    const { token } = holding.tenure
    const given = await holding.handOver('b')
    expect(holding.isHeld).toBe(false)
    expect(given.token).toBeGreaterThan(token)
    expect((await other.acquire('job')).token).toBeGreaterThan(given.token)
    await expect(holding.handOver('b')).rejects.toMatchObject(stale)
  })

  it('given up is free at once, and giving it up twice is fine', async () => {
    const { holding, other } = await held()
    await holding.release()
    await holding.release()
    expect(holding.signal.reason).toMatchObject({ code: EGpuErrorCode.Closed })
    await expect(other.acquire('job')).resolves.toMatchObject({ owner: 'b' })
  })
})

/** Holds back the answers to renewals from now on. */
function slowed(connection: Connection): { readonly renewed: () => boolean; readonly answer: () => void } {
  const transact = connection.transact.bind(connection)
  let isDone = false
  let answer = (): void => {}
  const later = new Promise<void>((resolve) => {
    answer = resolve
  })
  connection.transact = async (transaction) => {
    const outcome = await transact(transaction)
    if (transaction.put === undefined) return outcome
    isDone = true
    await later
    return outcome
  }
  return { renewed: () => isDone, answer }
}
