import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CheckpointStore } from '@egpu/migrator'
import { bulkLink, carriers } from '../bulk/carriers.ts'
import type { BulkLink } from '../bulk/lane.ts'
import type { PeerConnections } from '../control/peer-connection.ts'
import type { TokenBook } from '../ownership/token-book.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'
import { MessageType } from './messages.ts'
import type { ReplicaNote } from './messages.ts'
import { receiveCheckpoint } from './receive-checkpoint.ts'
import type { KnownCheckpoint } from './receive-checkpoint.ts'

/** Checkpoints of others' workloads that stay here. */
const generations = 2

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
  /** One at a time per workload: two writers would take the store from each other. */
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(peers: PeerConnections, store: CheckpointStore, tokens: TokenBook) {
    this.#peers = peers
    this.#store = store
    this.#tokens = tokens
  }

  /**
   * Pulls what is missing and commits it. Rejects with `EGPU_STALE_EPOCH` when the token is, or becomes, stale; nothing is
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
    const { record, manifest } = await receiveCheckpoint(this.#store, { address, links, ticket }, ref, {
      workloadId,
      known: await this.#known(workloadId),
      signal,
      beforeCommit: () => this.#tokens.assertCurrent(workloadId, token),
    })
    this.#replicas.set(workloadId, { generation: record.generation, manifest })
    for (const { generation } of (await this.#store.list(workloadId)).slice(generations)) {
      await this.#store.remove(workloadId, generation)
    }
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
