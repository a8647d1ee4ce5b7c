import { EGpuError, EGpuErrorCode, abandonable } from '@egpu/core'
import type { AbortOptions, Checkpointable, Clock, ComputeTarget } from '@egpu/core'
import type { CheckpointRecord, MigratorHost, WorkloadMigrator, WorkloadRun } from '@egpu/migrator'
import { abort, assertKind, assertOptions, nodeId } from '../arguments.ts'
import type { PeerConnections } from '../control/peer-connection.ts'
import { within } from '../deadline.ts'
import type { Coordinator, Ownership, Tenure } from '../ownership/coordinator.ts'
import { Holding } from '../ownership/holding.ts'
import { plainText } from '../text.ts'
import { MessageType } from './messages.ts'
import type { WorkNote } from './messages.ts'
import type { Handover, RemoteRun, RunEnd } from './remote-run.ts'
import type { ReplicaSender } from './replica-sender.ts'

export interface OwnedRunOptions {
  readonly kind: string
  readonly workload: Checkpointable
  readonly holding: Holding
  readonly coordinator: Coordinator
  readonly clock: Clock
  readonly migrator: WorkloadMigrator
  readonly manager: MigratorHost
  readonly peers: PeerConnections
  readonly sender: ReplicaSender
  onOver(): void
}

/** One workload, for as long as this host owns it. */
export class OwnedRun implements RemoteRun {
  readonly kind: string
  readonly workload: Checkpointable
  readonly ended: Promise<RunEnd>
  holding: Holding
  replicated: CheckpointRecord | undefined
  readonly #options: OwnedRunOptions
  readonly #unsubscribe: () => void
  #run: WorkloadRun | undefined
  #standby: string | undefined
  #replicating: Promise<void> | undefined
  #isBehind = false
  #isMoving = false
  #end: { resolve(end: RunEnd): void; reject(error: unknown): void } = { resolve: () => {}, reject: () => {} }
  #closing: Promise<void> | undefined

  constructor(options: OwnedRunOptions) {
    this.kind = options.kind
    this.workload = options.workload
    this.holding = options.holding
    this.#options = options
    this.ended = new Promise((resolve, reject) => {
      this.#end = { resolve, reject }
    })
    this.ended.catch(() => undefined)
    this.#unsubscribe = options.manager.on('checkpoint-saved', ({ workloadId }) => {
      if (workloadId === this.workload.id) void this.#follow()
    })
  }

  get run(): WorkloadRun {
    return this.#run as WorkloadRun
  }

  get tenure(): Tenure {
    return this.holding.tenure
  }

  /** Puts the workload to work, here. */
  start(): void {
    const run = this.#options.migrator.run(this.workload, { signal: this.holding.signal, keepCheckpoints: true })
    this.#run = run
    run.started.catch(() => undefined)
    run.finished.then(
      () => this.#done(),
      (error: unknown) => {
        if (!this.#isMoving && this.#closing === undefined) void this.#over(() => this.#end.reject(error))
      },
    )
  }

  /** Where it works; rejects with why it does not. */
  async startedWithin(signal: AbortSignal): Promise<ComputeTarget> {
    const looking = new AbortController()
    try {
      const startedOrParked = Promise.race([this.run.started, this.#parked(looking.signal)])
      return await abandonable(startedOrParked, within(startMs, signal))
    } finally {
      looking.abort()
    }
  }

  async standBy(peerId: string, options: AbortOptions = {}): Promise<void> {
    assertPeer(peerId, options)
    await this.#assertFits(peerId, options)
    // Without one the peer would have nothing, and not even know that it stands by, if this host died now.
    if (this.run.latestCheckpoint === undefined && this.run.state !== 'parked') await this.run.checkpoint(options)
    this.#standby = peerId
    await abandonable(this.#follow(), options.signal)
    if (this.replicated === undefined && this.run.latestCheckpoint !== undefined) {
      throw new EGpuError(EGpuErrorCode.PeerLost, `${peerId} did not get the newest checkpoint yet; it is tried again`)
    }
  }

  async moveToPeer(peerId: string, options: AbortOptions = {}): Promise<Handover> {
    assertPeer(peerId, options)
    const { sender, peers } = this.#options
    if (this.#isMoving) throw new TypeError(`${this.workload.id} is on its way already`)
    await this.#assertFits(peerId, options)
    this.#isMoving = true
    let isStopped = false
    try {
      if (this.run.where !== undefined) {
        // Most of it goes while the work goes on; the pause is for what changes meanwhile.
        await this.run.checkpoint(options)
        await sender.send(peerId, this.#note(), { isStandby: false, ...options })
      }
      isStopped = true
      await this.run.close()
      await sender.send(peerId, this.#note(), { isStandby: false, ...options })
      this.holding.assertHeld()
    } catch (error) {
      this.#isMoving = false
      if (this.run.state === 'finished')
        throw failed(this.workload.id, peerId, new Error('it was done before it could go'))
      if (isStopped && this.holding.isHeld) this.start()
      throw failed(this.workload.id, peerId, error)
    }
    const ownership = await this.holding.handOver(peerId, options).catch((error: unknown) => {
      throw failed(this.workload.id, peerId, error)
    })
    try {
      const note: WorkNote = { workloadId: this.workload.id, kind: this.kind, token: ownership.token }
      const { targetId, progress } = (await peers.request(peerId, MessageType.Take, note, options)) as Handover
      await this.#over(() => this.#end.resolve({ kind: 'handed-over', peerId }))
      return { peerId, targetId, progress }
    } catch (error) {
      await this.#takeBack(ownership, error)
      throw failed(this.workload.id, peerId, error)
    }
  }

  /** For a host that was given what it cannot run. */
  async giveBack(peerId: string): Promise<void> {
    this.#isMoving = true
    await this.run.close()
    await this.holding.handOver(peerId).catch(() => undefined)
    await this.#over(() => this.#end.resolve({ kind: 'handed-over', peerId }))
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await this.run.close()
    await this.holding.release().catch(() => undefined)
    const closed = new EGpuError(EGpuErrorCode.Closed, `the run of ${this.workload.id} was closed`)
    await this.#over(() => this.#end.reject(closed))
  }

  async #done(): Promise<void> {
    const { peers, migrator, sender } = this.#options
    const { id } = this.workload
    if (this.#standby !== undefined) {
      // Before it is given up: whoever stands by must not take it for a death.
      const signal = AbortSignal.timeout(forgetMs)
      await peers.request(this.#standby, MessageType.Forget, this.#note(), { signal }).catch(() => undefined)
    }
    await migrator.checkpoints.forget(id).catch(() => undefined)
    sender.forget(id)
    await this.holding.release().catch(() => undefined)
    await this.#over(() => this.#end.resolve({ kind: 'done' }))
  }

  async #over(settle: () => void): Promise<void> {
    this.#unsubscribe()
    this.#options.onOver()
    await this.holding[Symbol.asyncDispose]()
    settle()
  }

  async #parked(signal: AbortSignal): Promise<never> {
    while (this.run.state !== 'parked') await this.#options.clock.sleep(parkedLookMs, { signal })
    throw new EGpuError(EGpuErrorCode.NoTarget, `no target of this host can take ${this.workload.id} now`)
  }

  /** The peer refused what it had said it could run, or went silent: the coordinator knows whose it is. */
  async #takeBack({ resource }: Ownership, why: unknown): Promise<void> {
    const { coordinator, clock } = this.#options
    try {
      const tenure = await coordinator.acquire(resource, { signal: AbortSignal.timeout(startMs) })
      this.holding = new Holding(coordinator, tenure, clock)
      this.#isMoving = false
      this.start()
    } catch {
      await this.#over(() => this.#end.reject(why))
    }
  }

  async #assertFits(peerId: string, options: AbortOptions): Promise<void> {
    const { needs } = this.workload
    const body = { ...this.#note(), needs }
    const answer = await this.#options.peers.request(peerId, MessageType.Fit, body, options)
    const misfit = (answer as { misfit?: unknown } | null)?.misfit
    if (misfit === null) return
    const why = typeof misfit === 'string' ? plainText(misfit) : 'gave no reason'
    const message = `${peerId} cannot take ${this.workload.id}: it ${why}; nothing was sent`
    throw new EGpuError(EGpuErrorCode.TargetIncompatible, message)
  }

  #note(): WorkNote {
    return { workloadId: this.workload.id, kind: this.kind, token: this.tenure.token }
  }

  /** One replica at a time; a checkpoint that comes meanwhile goes right after. */
  #follow(): Promise<void> {
    this.#isBehind = true
    return (this.#replicating ??= this.#replicate())
  }

  async #replicate(): Promise<void> {
    const { sender } = this.#options
    try {
      while (this.#isBehind && !this.#isMoving && !this.holding.signal.aborted) {
        this.#isBehind = false
        const { signal } = this.holding
        if (this.#standby === undefined) await sender.prepare(this.workload.id, { signal })
        else this.replicated = await sender.send(this.#standby, this.#note(), { isStandby: true, signal })
      }
    } catch {
      // The next checkpoint is another attempt.
    } finally {
      this.#replicating = undefined
    }
  }
}

/** How long a peer may take to put work to work, and the coordinator to give it back. */
const startMs = 30_000
const parkedLookMs = 50
const forgetMs = 2_000

function assertPeer(peerId: string, options: AbortOptions): void {
  assertKind('peerId', peerId, nodeId)
  assertOptions('the options of standBy and moveToPeer', options, abort)
}

function failed(workloadId: string, peerId: string, cause: unknown): EGpuError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new EGpuError(EGpuErrorCode.MigrationFailed, `${workloadId} could not go to ${peerId}: ${why}`, { cause })
}
