import { randomUUID } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { CheckpointRecord, CheckpointStore } from '@egpu/migrator'
import { manifestRef } from '../bulk/manifest.ts'
import type { BulkOffer, BulkServer } from '../bulk/server.ts'
import { joinedSource, memorySource } from '../bulk/source.ts'
import type { PeerConnection, PeerConnections } from '../control/peer-connection.ts'
import { encodeCheckpointManifest } from './checkpoint-manifest.ts'
import type { CheckpointManifest } from './checkpoint-manifest.ts'
import { checkpointSource } from './checkpoint-source.ts'
import { MessageType, readOfferId } from './messages.ts'
import type { ReplicaNote, WorkNote } from './messages.ts'
import type { Pins } from './pinned-store.ts'
import { describeState } from './state-chunks.ts'

interface Given {
  readonly peerId: string
  readonly offer: BulkOffer
}

interface Described {
  readonly generation: number
  readonly manifest: CheckpointManifest
}

/** Offers checkpoints to peers, who pull what they lack. Offered bytes are read from the store as they are asked for. */
export class ReplicaSender {
  readonly #peers: PeerConnections
  readonly #store: CheckpointStore
  readonly #pins: Pins
  readonly #bulk: BulkServer
  readonly #given = new Map<string, Given>()
  /** What the newest checkpoint of a workload is made of: read and hashed once for all peers. */
  readonly #described = new Map<string, Described>()
  readonly #unhandle: () => void

  constructor(peers: PeerConnections, store: CheckpointStore, pins: Pins, bulk: BulkServer) {
    this.#peers = peers
    this.#store = store
    this.#pins = pins
    this.#bulk = bulk
    this.#unhandle = peers.handle(MessageType.Ticket, (body, { connection }) => {
      const given = this.#given.get(readOfferId(body))
      // Nobody gets at what was offered to somebody else.
      if (given?.peerId === connection.peerId) return given.offer.ticket()
      throw new EGpuError(EGpuErrorCode.PeerRefused, 'no such offer stands for this host')
    })
  }

  /** Reads and hashes the newest checkpoint ahead of a need. */
  async prepare(workloadId: string, { signal }: AbortOptions = {}): Promise<void> {
    await this.#withNewest(workloadId, signal, async (newest) => void (await this.#describe(newest, { signal })))
  }

  /**
   * Has the peer pull the newest checkpoint. Resolves to its record once the peer has committed it, to `undefined` when there
   * is none.
   */
  send(
    peerId: string,
    work: WorkNote,
    { isStandby, signal }: AbortOptions & { readonly isStandby: boolean },
  ): Promise<CheckpointRecord | undefined> {
    return this.#withNewest(work.workloadId, signal, async (newest) => {
      const manifest = await this.#describe(newest, { signal })
      const encoded = encodeCheckpointManifest(manifest)
      const ref = manifestRef(encoded)
      const state = await this.#store.open(newest.workloadId, newest.generation, { signal })
      const offerId = randomUUID()
      await using offer = this.#bulk.offer(joinedSource(memorySource(ref, encoded), checkpointSource(state, manifest)))
      this.#given.set(offerId, { peerId, offer })
      try {
        const note: ReplicaNote = { ...work, offerId, address: this.#bulk.address, manifest: ref, isStandby }
        await this.#ask(peerId, note, signal)
      } finally {
        this.#given.delete(offerId)
      }
    })
  }

  forget(workloadId: string): void {
    this.#described.delete(workloadId)
  }

  close(): void {
    this.#unhandle()
  }

  /** Over the best connection, and when its cable is pulled meanwhile over the next: the peer goes on where it was. */
  async #ask(peerId: string, note: ReplicaNote, signal: AbortSignal | undefined): Promise<void> {
    const tried = new Set<PeerConnection>()
    for (;;) {
      const connection = this.#peers.connections(peerId).find((each) => !tried.has(each))
      if (connection === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, `no connection to ${peerId} is open`)
      tried.add(connection)
      try {
        await connection.request(MessageType.Replica, note, { signal })
        return
      } catch (error) {
        const others = this.#peers.connections(peerId).filter((each) => !tried.has(each))
        if (!EGpuError.is(error, EGpuErrorCode.PeerLost) || others.length === 0) throw error
      }
    }
  }

  /** The newest checkpoint stays while it is worked with; resolves to it, or to `undefined` when there is none. */
  async #withNewest(
    workloadId: string,
    signal: AbortSignal | undefined,
    work: (newest: CheckpointRecord) => Promise<void>,
  ): Promise<CheckpointRecord | undefined> {
    for (;;) {
      const [newest] = await this.#store.list(workloadId, { signal })
      if (newest === undefined) return undefined
      const unpin = this.#pins.pin(workloadId, newest.generation)
      try {
        await work(newest)
        return newest
      } catch (error) {
        // Newer ones pushed it out between the look and the pin.
        if (!EGpuError.is(error, EGpuErrorCode.CheckpointNotFound)) throw error
        signal?.throwIfAborted()
      } finally {
        await unpin()
      }
    }
  }

  async #describe({ workloadId, generation }: CheckpointRecord, options: AbortOptions): Promise<CheckpointManifest> {
    const known = this.#described.get(workloadId)
    if (known?.generation === generation) return known.manifest
    const state = await this.#store.open(workloadId, generation, options)
    const manifest = await describeState(workloadId, state, options)
    this.#described.set(workloadId, { generation, manifest })
    return manifest
  }
}
