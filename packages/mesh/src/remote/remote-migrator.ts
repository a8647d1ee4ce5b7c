import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { Checkpointable, ComputeTarget } from '@egpu/core'
import { WorkloadMigrator, cpuTarget, incompatibility } from '@egpu/migrator'
import type { CheckpointStore, MigrationConfig, MigratorHost } from '@egpu/migrator'
import { abort, assertKind, assertOptions, callback, connections, flag, object, optional } from '../arguments.ts'
import { text, withMethods, type Kind } from '../arguments.ts'
import { BulkServer } from '../bulk/server.ts'
import type { PeerConnections } from '../control/peer-connection.ts'
import type { AcquireOptions, Coordinator, Tenure } from '../ownership/coordinator.ts'
import { fencedStore } from '../ownership/fenced-store.ts'
import { Holding } from '../ownership/holding.ts'
import { TokenBook } from '../ownership/token-book.ts'
import { KnownOwners } from './known-owners.ts'
import { MessageType, nameOfWork, readFit, readReplica, readWork } from './messages.ts'
import type { FitNote, WorkNote } from './messages.ts'
import { OwnedRun } from './owned-run.ts'
import { Pins } from './pinned-store.ts'
import type { RemoteRun } from './remote-run.ts'
import { ReplicaReceiver } from './replica-receiver.ts'
import { ReplicaSender } from './replica-sender.ts'

export interface RemoteMigratorOptions {
  /** `mesh.control` of a `ThunderboltMesh`. */
  readonly peers: PeerConnections
  /** An `EGpuManager`. */
  readonly manager: MigratorHost
  /** Made for this host: its `self` is `peers.nodeId`. */
  readonly coordinator: Coordinator
  /** Where checkpoints of this host's work go, and those of peers' work it stands by for. Not closed. */
  readonly store: CheckpointStore
  /** Work this host has code for, by kind. Peers can start these and nothing else. */
  readonly kinds: Readonly<Record<string, (workloadId: string) => Checkpointable>>
  readonly migration?: Omit<MigrationConfig, 'store'> | undefined
  /** File of the highest fencing tokens seen, so that a restart forgets none. Default: in memory. */
  readonly tokenPath?: string | undefined
  /** Whether checkpoints travel encrypted; default true. */
  readonly encrypted?: boolean | undefined
}

const optionKinds: Readonly<Record<keyof RemoteMigratorOptions, Kind>> = {
  peers: connections,
  manager: withMethods('an EGpuManager', ['find', 'targets', 'openTarget', 'on', 'addGuest', 'report']),
  coordinator: withMethods('a Coordinator such as embeddedCoordinator() gives', [
    'acquire',
    'renew',
    'transfer',
    'revoke',
    'watch',
    'close',
  ]),
  store: withMethods('a CheckpointStore such as directoryStore(path)', [
    'workloads',
    'list',
    'acquire',
    'begin',
    'open',
    'remove',
    'close',
  ]),
  kinds: object,
  migration: optional(object),
  tokenPath: optional(text),
  encrypted: optional(flag),
}
const checkpointable = withMethods('a Checkpointable', ['restore', 'resume', 'freeze', 'suspend', 'release'])

/** Between attempts to take over work that nobody owns. */
const takeOverAgainMs = 250

/**
 * Runs workloads that this host owns, keeps copies of their checkpoints on peers, hands them over, and takes over what peers
 * hand over. A migrator for this host's devices, and what joins it to those of the others.
 */
export class RemoteMigrator implements AsyncDisposable {
  readonly migrator: WorkloadMigrator
  readonly #options: RemoteMigratorOptions
  readonly #bulk: BulkServer
  readonly #tokens: TokenBook
  readonly #owners: KnownOwners
  readonly #sender: ReplicaSender
  readonly #receiver: ReplicaReceiver
  readonly #runs = new Map<string, OwnedRun>()
  /** To be owned and run in a moment. */
  readonly #starting = new Set<string>()
  readonly #standbys = new Map<string, AbortController>()
  readonly #listeners = new Set<(run: RemoteRun) => void>()
  readonly #unhandle: readonly (() => void)[]
  #closing: Promise<void> | undefined

  private constructor(options: RemoteMigratorOptions, bulk: BulkServer, tokens: TokenBook) {
    const { peers, manager, store, migration = {} } = options
    this.#options = options
    this.#bulk = bulk
    this.#tokens = tokens
    this.#owners = new KnownOwners(options.coordinator, tokens)
    const pins = new Pins(store)
    // Of these two the one that may refuse its settings comes first: then nothing has to be taken back.
    this.migrator = new WorkloadMigrator(manager, {
      ...migration,
      store: fencedStore(pins.store, (id) => this.#fence(id)),
    })
    this.#sender = new ReplicaSender(peers, store, pins, bulk)
    this.#receiver = new ReplicaReceiver(peers, store, tokens)
    this.#unhandle = [
      peers.handle(MessageType.Fit, async (body) => ({ misfit: (await this.#misfit(readFit(body))) ?? null })),
      peers.handle(MessageType.Replica, async (body, { connection, signal }) => {
        await this.#receiveReplica(body, connection.peerId, signal)
        return null
      }),
      peers.handle(MessageType.Take, (body, { connection, signal }) => this.#take(body, connection.peerId, signal)),
      peers.handle(MessageType.Forget, (body, { connection, signal }) =>
        this.#forget(readWork(body), connection.peerId, signal),
      ),
    ]
  }

  /**
   * Resolves once it can be asked by peers; one for each mesh. Rejects with a `TypeError` for an option that cannot be, and
   * like `TokenBook.open` for what is at `tokenPath`.
   */
  static async open(options: RemoteMigratorOptions): Promise<RemoteMigrator> {
    assertOptions('the options of a remote migrator', options, optionKinds)
    const { coordinator, peers } = options
    if (coordinator.self !== peers.nodeId) {
      throw new TypeError(`coordinator must be the one of this host, ${peers.nodeId}, not that of ${coordinator.self}`)
    }
    for (const [name, make] of Object.entries(options.kinds)) assertKind(`kinds.${name}`, make, callback)
    const tokens = await TokenBook.open(options.tokenPath)
    const bulk = await BulkServer.listen({ encrypted: options.encrypted })
    try {
      return new RemoteMigrator(options, bulk, tokens)
    } catch (error) {
      await bulk.close()
      throw error
    }
  }

  /** What this host owns and runs, started here or come from a peer. */
  get runs(): readonly RemoteRun[] {
    return [...this.#runs.values()]
  }

  /** Called for every run that begins here, also those that come from peers; returns what ends it. */
  onRun(listener: (run: RemoteRun) => void): () => void {
    assertKind('a listener', listener, callback)
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /**
   * Makes this host the owner of a workload and runs it, from its newest checkpoint here if there is one. With `ownerIsDead`
   * a person says that its owner will not come back, as where two hosts have nobody else to ask. Rejects with
   * `EGPU_NOT_OWNER` while another host owns it; `TypeError` for a kind this host has no code for, and for a workload whose
   * `id` is another one.
   */
  async run(kind: string, workloadId: string, options: AcquireOptions = {}): Promise<RemoteRun> {
    assertKind('workloadId', workloadId, nameOfWork)
    assertOptions('the options of run', options, { ...abort, ownerIsDead: optional(flag) })
    if (this.#closing !== undefined) throw new EGpuError(EGpuErrorCode.Closed, 'this remote migrator was closed')
    if (!Object.hasOwn(this.#options.kinds, kind))
      throw new TypeError(`this host has no code for work of kind '${kind}'`)
    if (this.#runs.has(workloadId) || this.#starting.has(workloadId))
      throw new TypeError(`${workloadId} runs here already`)
    const workload = this.#make(kind, workloadId)
    this.#starting.add(workloadId)
    try {
      return await this.#begin(kind, workload, await this.#options.coordinator.acquire(workloadId, options))
    } finally {
      this.#starting.delete(workloadId)
    }
  }

  /** Closes every run after a last checkpoint. Calling it twice is fine. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    for (const unhandle of this.#unhandle) unhandle()
    for (const standby of this.#standbys.values()) standby.abort()
    await Promise.all([...this.#runs.values()].map((run) => run.close()))
    await this.migrator.close()
    this.#sender.close()
    await this.#receiver.close()
    await this.#bulk.close()
  }

  /** Before it is owned: what cannot be made must not keep others from running it. */
  #make(kind: string, workloadId: string): Checkpointable {
    const make = this.#options.kinds[kind] as (workloadId: string) => Checkpointable
    const workload = make(workloadId)
    assertKind(`what kinds.${kind} makes`, workload, checkpointable)
    if (workload.id === workloadId) return workload
    throw new TypeError(`kinds.${kind} has to make work with the id '${workloadId}', not '${workload.id}'`)
  }

  async #begin(kind: string, workload: Checkpointable, tenure: Tenure): Promise<OwnedRun> {
    const { coordinator, manager, peers } = this.#options
    const { resource: workloadId, token } = tenure
    try {
      await this.#tokens.see(workloadId, token)
    } catch (error) {
      // Owned and not run, it would keep everybody else from running it.
      await coordinator.revoke(tenure).catch(() => undefined)
      throw error
    }
    this.#endStandby(workloadId)
    this.#receiver.forget(workloadId)
    const run = new OwnedRun({
      kind,
      workload,
      holding: new Holding(coordinator, tenure, manager.clock),
      coordinator,
      clock: manager.clock,
      migrator: this.migrator,
      manager,
      peers,
      sender: this.#sender,
      onOver: () => {
        if (this.#runs.get(workloadId) === run) this.#runs.delete(workloadId)
      },
    })
    this.#runs.set(workloadId, run)
    run.start()
    for (const listener of this.#listeners) listener(run)
    return run
  }

  /** Nothing of a workload is restored or committed here unless this host owns it now, by the newest token. */
  #fence(workloadId: string): void {
    const run = this.#runs.get(workloadId)
    if (run === undefined) throw new EGpuError(EGpuErrorCode.StaleEpoch, `this host does not own ${workloadId}`)
    run.holding.assertHeld()
    this.#tokens.assertCurrent(workloadId, run.tenure.token)
  }

  /** Whoever speaks of work that runs on this host is stale, or lies. */
  #assertElsewhere(workloadId: string): void {
    if (!this.#runs.has(workloadId) && !this.#starting.has(workloadId)) return
    throw new EGpuError(EGpuErrorCode.StaleEpoch, `${workloadId} runs on this host: nobody else speaks for it`)
  }

  /** Why work with these needs cannot run here; `undefined` when it can. */
  async #misfit({ workloadId, kind, token, needs }: FitNote): Promise<string | undefined> {
    const { kinds, manager, migration } = this.#options
    this.#tokens.assertCurrent(workloadId, token)
    if (!Object.hasOwn(kinds, kind)) return `has no code for work of kind '${kind}'`
    const targets: ComputeTarget[] = [...(await manager.targets())]
    if (migration?.cpu !== false) targets.push((migration?.cpu ?? cpuTarget)().target)
    const reasons = targets.map((target) => [target.name, incompatibility(needs, target)] as const)
    if (reasons.some(([, reason]) => reason === undefined)) return undefined
    if (reasons.length === 0) return 'has no target at all'
    return `has no target for it: ${reasons.map(([name, reason]) => `${name} ${reason}`).join('; ')}`
  }

  async #receiveReplica(body: unknown, peerId: string, signal: AbortSignal): Promise<void> {
    const note = readReplica(body)
    const { workloadId, token } = note
    this.#assertElsewhere(workloadId)
    await this.#owners.assertOwner(peerId, workloadId, token, { signal })
    await this.#receiver.receive(peerId, note, { signal })
    if (note.isStandby && this.#options.coordinator.promotion.automatic) void this.#standBy(note)
  }

  /** Takes over once the owner's lease has run out: its host is dead or cut off, and has stopped by then. */
  async #standBy({ workloadId, kind }: WorkNote): Promise<void> {
    if (this.#standbys.has(workloadId) || !Object.hasOwn(this.#options.kinds, kind)) return
    const stop = new AbortController()
    this.#standbys.set(workloadId, stop)
    const { coordinator } = this.#options
    let attempts = new AbortController()
    for await (const state of coordinator.watch(workloadId, { signal: stop.signal })) {
      // An attempt was carried out and its answer lost: the next one will tell.
      if (state.kind === 'owned' && state.ownership.owner === coordinator.self) continue
      attempts.abort()
      attempts = new AbortController()
      if (state.kind !== 'free' || state.lastToken === 0) continue
      void this.#takeOver(kind, workloadId, AbortSignal.any([stop.signal, attempts.signal]))
    }
  }

  /** Tries for as long as nobody owns it: an attempt fails too where the coordinator is in trouble itself. */
  async #takeOver(kind: string, workloadId: string, signal: AbortSignal): Promise<void> {
    const { coordinator, manager } = this.#options
    while (!signal.aborted) {
      try {
        const workload = this.#make(kind, workloadId)
        const tenure = await coordinator.acquire(workloadId, { signal })
        if (signal.aborted) await coordinator.revoke(tenure)
        else await this.#begin(kind, workload, tenure)
        return
      } catch {
        await manager.clock.sleep(takeOverAgainMs, { signal }).catch(() => undefined)
      }
    }
  }

  #endStandby(workloadId: string): void {
    this.#standbys.get(workloadId)?.abort()
    this.#standbys.delete(workloadId)
  }

  async #take(body: unknown, peerId: string, signal: AbortSignal): Promise<{ targetId: string; progress: number }> {
    const { workloadId, kind, token } = readWork(body)
    if (!Object.hasOwn(this.#options.kinds, kind)) {
      throw new EGpuError(EGpuErrorCode.TargetIncompatible, `this host has no code for work of kind '${kind}'`)
    }
    this.#assertElsewhere(workloadId)
    this.#tokens.assertCurrent(workloadId, token)
    const workload = this.#make(kind, workloadId)
    const run = await this.#begin(kind, workload, await this.#options.coordinator.acquire(workloadId, { signal }))
    try {
      const target = await run.startedWithin(signal)
      return { targetId: target.id, progress: run.workload.progress }
    } catch (error) {
      await run.giveBack(peerId)
      throw error
    }
  }

  async #forget({ workloadId, token }: WorkNote, peerId: string, signal: AbortSignal): Promise<null> {
    this.#assertElsewhere(workloadId)
    await this.#owners.assertOwner(peerId, workloadId, token, { signal })
    this.#owners.forget(workloadId)
    this.#endStandby(workloadId)
    this.#receiver.forget(workloadId)
    const { store } = this.#options
    for (const { generation } of [...(await store.list(workloadId))].reverse())
      await store.remove(workloadId, generation)
    return null
  }
}
