import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore } from '@egpu/migrator'
import { bulkLink, carriers } from '../bulk/carriers.ts'
import type { ChunkRef } from '../bulk/chunk.ts'
import type { BulkLink } from '../bulk/lane.ts'
import type { PullSource } from '../bulk/pull.ts'
import type { PeerConnections } from '../control/peer-connection.ts'
import type { TokenBook } from '../ownership/token-book.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'
import { MessageType } from './messages.ts'
import type { ReplicaNote } from './messages.ts'
import { Reception } from './reception.ts'
import type { KnownCheckpoint } from './reception.ts'

/** Checkpoints of others' workloads that stay here. */
const generations = 2

/** Receptions that were broken off and wait for their sender; a host whose cables are out has more of them than one. */
const mostWaiting = 8

/** How long they wait: somebody has to plug a cable in. */
const waitMs = 5 * 60_000

interface Waiting {
  readonly reception: Reception
  readonly timer: NodeJS.Timeout
}

interface Replica {
  readonly generation: number
  readonly manifest: CheckpointManifest
}

/** Pulls checkpoints of peers' workloads into this host's store. */
export class ReplicaReceiver {
  readonly #peers: PeerConnections
  readonly #store: CheckpointStore
  readonly #tokens: TokenBook
  readonly #replicas = new Map<string, Replica>()
  /** By workload, the oldest first. */
  readonly #waiting = new Map<string, Waiting>()
  /** One at a time per workload: two writers would take the store from each other. */
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(peers: PeerConnections, store: CheckpointStore, tokens: TokenBook) {
    this.#peers = peers
    this.#store = store
    this.#tokens = tokens
  }

  /**
   * Pulls what is missing and commits it. Broken off and offered again, it goes on where it was. Rejects with `EGPU_STALE_EPOCH` when the token is, or becomes, stale; nothing is
   * committed then.
   */
  receive(peerId: string, note: ReplicaNote, options: AbortOptions): Promise<void> {
    const { workloadId } = note
    const before = this.#turns.get(workloadId) ?? Promise.resolve()
    const turn = before.catch(() => undefined).then(() => this.#receive(peerId, note, options))
    this.#turns.set(workloadId, turn)
    const forget = (): void => {
      if (this.#turns.get(workloadId) === turn) this.#turns.delete(workloadId)
    }
    turn.then(forget, forget)
    return turn
  }

  /** Something else wrote or removed checkpoints of this workload here. */
  forget(workloadId: string): void {
    this.#replicas.delete(workloadId)
    void this.#unpark(workloadId)?.discard()
  }

  async close(): Promise<void> {
    for (const workloadId of this.#waiting.keys()) await this.#unpark(workloadId)?.discard()
  }

  async #receive(peerId: string, note: ReplicaNote, { signal }: AbortOptions): Promise<void> {
    const { workloadId, token, offerId, address, manifest: ref } = note
    await this.#tokens.see(workloadId, token)
    const links = this.#linksTo(peerId)
    const ticket = async (options: AbortOptions): Promise<string> => {
      const answer = await this.#peers.request(peerId, MessageType.Ticket, { offerId }, options)
      if (typeof answer === 'string' && /^[\da-f]{64}$/.test(answer)) return answer
      throw new EGpuError(EGpuErrorCode.MalformedData, `${peerId} gave something that is no ticket`)
    }
    const source = { address, links, ticket }
    const reception = (await this.#resumed(workloadId, ref.id)) ?? (await this.#begun(workloadId, source, ref, signal))
    const record = await this.#complete(reception, source, workloadId, signal, () =>
      this.#tokens.assertCurrent(workloadId, token),
    )
    const { manifest } = reception
    this.#replicas.set(workloadId, { generation: record.generation, manifest })
    for (const { generation } of (await this.#store.list(workloadId)).slice(generations)) {
      await this.#store.remove(workloadId, generation)
    }
  }

  /** The one that was broken off, when this is the same checkpoint. */
  async #resumed(workloadId: string, id: string): Promise<Reception | undefined> {
    const reception = this.#unpark(workloadId)
    if (reception?.id === id) return reception
    await reception?.discard()
    return undefined
  }

  async #begun(
    workloadId: string,
    source: PullSource,
    ref: ChunkRef,
    signal: AbortSignal | undefined,
  ): Promise<Reception> {
    return Reception.begin(this.#store, source, ref, { workloadId, known: await this.#known(workloadId), signal })
  }

  async #complete(
    reception: Reception,
    source: PullSource,
    workloadId: string,
    signal: AbortSignal | undefined,
    beforeCommit: () => void,
  ): Promise<CheckpointRecord> {
    try {
      await reception.pull(source, { signal })
    } catch (error) {
      const isBrokenOff = signal?.aborted === true || EGpuError.is(error, EGpuErrorCode.PeerLost)
      if (isBrokenOff && reception.canGoOn) this.#park(workloadId, reception)
      else await reception.discard()
      throw error
    }
    try {
      signal?.throwIfAborted()
      beforeCommit()
      return await reception.commit({ signal })
    } catch (error) {
      await reception.discard()
      throw error
    }
  }

  #park(workloadId: string, reception: Reception): void {
    const [oldest] = this.#waiting.keys()
    if (oldest !== undefined && this.#waiting.size >= mostWaiting) void this.#unpark(oldest)?.discard()
    const timer = setTimeout(() => void this.#unpark(workloadId)?.discard(), waitMs)
    timer.unref()
    this.#waiting.set(workloadId, { reception, timer })
  }

  #unpark(workloadId: string): Reception | undefined {
    const waiting = this.#waiting.get(workloadId)
    clearTimeout(waiting?.timer)
    this.#waiting.delete(workloadId)
    return waiting?.reception
  }

  async #known(workloadId: string): Promise<KnownCheckpoint | undefined> {
    const replica = this.#replicas.get(workloadId)
    if (replica === undefined) return undefined
    try {
      return { manifest: replica.manifest, state: await this.#store.open(workloadId, replica.generation) }
    } catch {
      // Gone or damaged: everything travels again.
      return undefined
    }
  }

  #linksTo(peerId: string): readonly BulkLink[] {
    const connections = this.#peers.connections(peerId)
    if (connections.length === 0) throw new EGpuError(EGpuErrorCode.PeerLost, `${peerId} is not connected`)
    return carriers(connections).map(({ link }) => bulkLink(link))
  }
}
