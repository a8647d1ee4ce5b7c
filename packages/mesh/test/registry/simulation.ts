import { RuntimeKind } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { ClusterCoordinator } from '../../src/ownership/cluster-coordinator.ts'
import { Holding } from '../../src/ownership/holding.ts'
import { ClusterRegistry } from '../../src/registry/cluster-registry.ts'
import type { RegisteredHost } from '../../src/registry/host-registry.ts'
import { placement } from '../../src/registry/placement.ts'
import { randomFrom } from '../helpers/random.ts'
import { MemoryCluster } from '../ownership/memory-cluster.ts'
import type { Connection } from '../ownership/memory-cluster.ts'

export const leaseSeconds = 5
const leaseMs = leaseSeconds * 1_000
/** Hosts start within so much time. */
const startingMs = 2_000
/** As fine as times are told. */
const stepMs = 50
const steadyLeases = 6

export interface ScaleResult {
  readonly hosts: number
  readonly works: number
  /** From the last start until every host lists every host. */
  readonly membersAfterMs: number
  /** From the death of a tenth of the hosts until every other host lists those that are left. */
  readonly lossKnownAfterMs: number
  /** From then on until all work of the dead is owned by the host that stood by for it. */
  readonly takenOverAfterMs: number
  /** Work whose order of hosts two hosts did not agree on. */
  readonly disagreements: number
  /** Moments at which two hosts held the same work. */
  readonly doubleOwners: number
  /** Requests of one host per lease while nothing changes: of one without work, and what one work more costs it. */
  readonly idleRequests: number
  readonly ownerRequests: number
  readonly standbyRequests: number
  /** Changes that one host hears of while all start, and while a tenth die. */
  readonly startNotices: number
  readonly lossNotices: number
  /** Requests of one host while all start. */
  readonly startRequests: number
}

class Host {
  readonly nodeId: string
  readonly connection: Connection
  readonly coordinator: ClusterCoordinator
  readonly registry: ClusterRegistry
  readonly holdings = new Map<string, Holding>()
  members: readonly RegisteredHost[] = []
  isDead = false
  readonly #stop = new AbortController()
  readonly #clock: VirtualClock

  constructor(nodeId: string, cluster: MemoryCluster, clock: VirtualClock) {
    this.nodeId = nodeId
    this.#clock = clock
    this.connection = cluster.connection()
    this.coordinator = new ClusterCoordinator(this.connection, { name: 'memory', self: nodeId, leaseSeconds, clock })
    this.registry = new ClusterRegistry(this.connection, { self: nodeId, leaseSeconds, clock })
  }

  async start(): Promise<void> {
    const target = { id: 'gpu', name: 'GPU', kind: 'gpu', runtime: RuntimeKind.Simulated, removable: true } as const
    await this.registry.announce({ hostname: this.nodeId, targets: [target] })
    for await (const members of this.registry.watch({ signal: this.#stop.signal })) this.members = members
  }

  async own(work: string): Promise<void> {
    const tenure = await this.coordinator.acquire(work)
    this.holdings.set(work, new Holding(this.coordinator, tenure, this.#clock))
  }

  /** As `RemoteMigrator` does. */
  async standBy(work: string): Promise<void> {
    for await (const state of this.coordinator.watch(work, { signal: this.#stop.signal })) {
      if (state.kind === 'free' && state.lastToken > 0) await this.own(work).catch(() => undefined)
      if (this.holdings.has(work)) return
    }
  }

  holds(work: string): boolean {
    return !this.isDead && this.holdings.get(work)?.isHeld === true
  }

  die(): void {
    this.isDead = true
    this.connection.isCut = true
    this.end()
  }

  end(): void {
    this.#stop.abort()
    void this.registry.close()
    for (const holding of this.holdings.values()) void holding[Symbol.asyncDispose]()
  }
}

/** Hosts that start at once, share out work, and of which a tenth dies at one moment: in virtual time, on one cluster. */
export async function simulate(count: number, seed = 8): Promise<ScaleResult> {
  const clock = new VirtualClock()
  const cluster = new MemoryCluster(clock)
  const random = randomFrom(seed)
  const hosts = Array.from({ length: count }, (_, index) => new Host(`host-${index}`, cluster, clock))
  for (const host of hosts) void clock.sleep(random(startingMs)).then(() => host.start())
  await clock.advance(startingMs)
  const membersAfterMs = await until(clock, () => hosts.every(({ members }) => members.length === count))
  const [startNotices, startRequests] = [mean(hosts, 'notices'), mean(hosts, 'requests')]

  const works = Array.from({ length: Math.max(1, Math.floor(count / 10)) }, (_, index) => `work-${index}`)
  const needs = { runtimes: [RuntimeKind.Simulated] }
  const named = new Map(hosts.map((host) => [host.nodeId, host]))
  const pick = (): Host => hosts[Math.floor(random(count))] as Host
  const standbys = new Map<string, Host>()
  let disagreements = 0
  const order = (asked: Host, work: string): readonly string[] =>
    placement(asked.members, { workloadId: work, needs }).map(({ nodeId }) => nodeId)
  for (const work of works) {
    const asked = order(pick(), work)
    if (asked.join() !== order(pick(), work).join()) disagreements += 1
    const [first, second] = [named.get(asked[0] ?? ''), named.get(asked[1] ?? '')]
    await first?.own(work)
    if (second !== undefined) standbys.set(work, second)
    void second?.standBy(work)
  }
  await clock.advance(leaseMs)
  const before = new Map(hosts.map((host) => [host, host.connection.requests]))
  await clock.advance(leaseMs * steadyLeases)
  const { idle, perOwned, perStandby } = cost(hosts, before, standbys)

  const dead = new Set<Host>()
  // Never both who runs a work and who stands by for it: that is two failures.
  const isSpared = (host: Host): boolean =>
    [...host.holdings.keys()].some((work) => dead.has(standbys.get(work) as Host)) ||
    [...standbys].some(([work, standby]) => standby === host && [...dead].some((each) => each.holdings.has(work)))
  while (dead.size < Math.max(1, count / 10)) {
    const victim = pick()
    if (!isSpared(victim)) dead.add(victim)
  }
  const alive = hosts.filter((host) => !dead.has(host))
  const noticesBefore = mean(alive, 'notices')
  for (const host of dead) host.die()
  let doubleOwners = 0
  let [lossKnownAfterMs, takenOverAfterMs] = [0, 0]
  await until(clock, (sinceMs) => {
    const owners = works.map((work) => hosts.filter((host) => host.holds(work)).length)
    doubleOwners += owners.filter((each) => each > 1).length
    const isKnown = alive.every(({ members }) => members.length === alive.length)
    const isTaken = owners.every((each) => each === 1)
    if (isKnown && lossKnownAfterMs === 0) lossKnownAfterMs = sinceMs
    if (isTaken && takenOverAfterMs === 0) takenOverAfterMs = sinceMs
    return isKnown && isTaken
  })
  const lossNotices = mean(alive, 'notices') - noticesBefore
  for (const host of alive) host.end()
  await clock.advance(0)
  return {
    hosts: count,
    works: works.length,
    membersAfterMs,
    lossKnownAfterMs,
    takenOverAfterMs,
    disagreements,
    doubleOwners,
    idleRequests: idle / steadyLeases,
    ownerRequests: perOwned / steadyLeases,
    standbyRequests: perStandby / steadyLeases,
    startNotices,
    startRequests,
    lossNotices,
  }
}

async function until(clock: VirtualClock, holds: (sinceMs: number) => boolean): Promise<number> {
  const sinceMs = clock.now()
  while (!holds(clock.now() - sinceMs)) {
    if (clock.now() - sinceMs > 60_000) throw new Error('it did not come about within a minute of virtual time')
    await clock.advance(stepMs)
  }
  return clock.now() - sinceMs
}

function mean(hosts: readonly Host[], what: 'notices' | 'requests'): number {
  return hosts.reduce((sum, { connection }) => sum + connection[what], 0) / hosts.length
}

/** What a host without work asks for, and what running one work, or standing by for one, adds to that. */
function cost(
  hosts: readonly Host[],
  before: ReadonlyMap<Host, number>,
  standbys: ReadonlyMap<string, Host>,
): { readonly idle: number; readonly perOwned: number; readonly perStandby: number } {
  const asked = (host: Host): number => host.connection.requests - (before.get(host) ?? 0)
  const roles = hosts.map((host) => ({
    asked: asked(host),
    owned: host.holdings.size,
    stoodBy: [...standbys.values()].filter((standby) => standby === host).length,
  }))
  const average = (values: readonly number[]): number =>
    values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
  const idle = average(roles.filter(({ owned, stoodBy }) => owned + stoodBy === 0).map((role) => role.asked))
  const only = (what: 'owned' | 'stoodBy', other: 'owned' | 'stoodBy'): number =>
    average(roles.filter((role) => role[what] > 0 && role[other] === 0).map((role) => (role.asked - idle) / role[what]))
  return { idle, perOwned: only('owned', 'stoodBy'), perStandby: only('stoodBy', 'owned') }
}
