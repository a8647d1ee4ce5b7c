import { EGpuError, EGpuErrorCode } from '@egpu/core'
import type { AbortOptions } from '@egpu/core'
import type { PeerConnections } from '../control/peer-connection.ts'
import { within } from '../deadline.ts'
import { Bell } from './bell.ts'
import type { AcquireOptions, Coordinator, Ownership, OwnershipState, Promotion, Tenure } from './coordinator.ts'
import { OwnershipBook } from './ownership-book.ts'

/** Requests of this coordinator on the control plane. */
const announceType = 'ownership/announce'
const askType = 'ownership/ask'

export interface EmbeddedCoordinatorOptions {
  readonly peers: PeerConnections
  /** Where this host keeps what it knows, so that a restart forgets nothing. Default: in memory, for tests. */
  readonly path?: string | undefined
}

/**
 * Ownership among the hosts of a mesh, without a server. An owner keeps what it owns until it hands it over itself: losing
 * an eGPU, or moving work on purpose, needs nobody's vote, since the owner is alive to say so. When the owner's host is
 * silent, nobody takes over: two hosts cannot tell a dead one from a cut cable. Each host keeps the highest token it has
 * heard of, so a host that comes back from the dead is refused.
 */
export async function embeddedCoordinator(options: EmbeddedCoordinatorOptions): Promise<Coordinator> {
  return new EmbeddedCoordinator(options.peers, await OwnershipBook.open(options.path))
}

const noPromotion =
  'no host is promoted alone: from two hosts, a dead one and a cut cable look the same. For a takeover without a person ' +
  'add a witness: three etcd members, the third on any machine that both can reach (no GPU and no cable needed), and ' +
  'use etcdCoordinator'

class EmbeddedCoordinator implements Coordinator {
  readonly name = 'embedded'
  readonly self: string
  readonly promotion: Promotion = { automatic: false, reason: noPromotion }
  readonly #peers: PeerConnections
  readonly #book: OwnershipBook
  readonly #bell = new Bell()
  readonly #unhandle: readonly (() => void)[]

  constructor(peers: PeerConnections, book: OwnershipBook) {
    this.self = peers.nodeId
    this.#peers = peers
    this.#book = book
    this.#unhandle = [
      peers.handle(announceType, (body, { connection }) => this.#hear(body, connection.peerId)),
      peers.handle(askType, (body) => this.#book.get(resourceOf(body)) ?? null),
      peers.onConnection(({ peerId, closed }) => {
        this.#bell.ring()
        void closed.then(() => this.#bell.ring())
        void this.#tellAll(peerId)
      }),
    ]
  }

  async acquire(resource: string, { ownerIsDead = false, signal }: AcquireOptions = {}): Promise<Tenure> {
    await this.#askAll(resource, signal)
    const known = this.#book.get(resource)
    const isFree = known === undefined || known.owner === undefined || known.owner === this.self
    if (!isFree && !ownerIsDead) throw notOwner(known as Ownership, this.#isConnected(known.owner))
    if (!isFree && this.#isConnected(known.owner)) {
      throw new EGpuError(EGpuErrorCode.NotOwner, `${known.owner} owns ${resource} and is not dead: it is connected`)
    }
    const token = (known?.token ?? 0) + 1
    await this.#book.put({ resource, owner: this.self, token })
    this.#bell.ring()
    await this.#announce(resource, signal)
    return { resource, owner: this.self, token, validUntilMs: Infinity }
  }

  async renew(tenure: Tenure): Promise<Tenure> {
    this.#assertOwned(tenure)
    return tenure
  }

  async transfer(tenure: Tenure, to: string, { signal }: AbortOptions = {}): Promise<Ownership> {
    this.#assertOwned(tenure)
    const given: Ownership = { resource: tenure.resource, owner: to, token: tenure.token + 1 }
    // Written before it is said: from here on this host refuses to run it, whether the other heard or not.
    await this.#book.put(given)
    this.#bell.ring()
    await this.#announce(tenure.resource, signal)
    return given
  }

  async revoke(tenure: Tenure, { signal }: AbortOptions = {}): Promise<void> {
    const known = this.#book.get(tenure.resource)
    if (known?.token !== tenure.token || known.owner !== this.self) return
    await this.#book.put({ resource: tenure.resource, owner: undefined, token: tenure.token })
    this.#bell.ring()
    await this.#announce(tenure.resource, signal)
  }

  async *watch(resource: string, { signal }: { readonly signal: AbortSignal }): AsyncIterable<OwnershipState> {
    let last = ''
    while (!signal.aborted) {
      const rung = this.#bell.next(signal)
      const state = this.#stateOf(resource)
      const text = JSON.stringify(state)
      if (text !== last) yield state
      last = text
      await rung
    }
  }

  async close(): Promise<void> {
    for (const unhandle of this.#unhandle) unhandle()
    this.#bell.ring()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #stateOf(resource: string): OwnershipState {
    const known = this.#book.get(resource)
    if (known?.owner === undefined) return { kind: 'free', lastToken: known?.token ?? 0 }
    const ownership: Ownership = { resource, owner: known.owner, token: known.token }
    if (known.owner === this.self || this.#isConnected(known.owner)) return { kind: 'owned', ownership }
    return { kind: 'orphaned', ownership, reason: `${known.owner} cannot be reached; ${noPromotion}` }
  }

  #isConnected(host: string): boolean {
    return this.#peers.connections(host).length > 0
  }

  #assertOwned({ resource, token }: Tenure): void {
    const known = this.#book.get(resource)
    if (known?.token === token && known.owner === this.self) return
    const now = `token ${known?.token ?? 0}, owner ${known?.owner ?? 'nobody'}`
    throw new EGpuError(EGpuErrorCode.StaleEpoch, `token ${token} for ${resource} is stale (${now})`)
  }

  /** Takes over what peers know better. A peer that cannot be asked is asked when it connects. */
  async #askAll(resource: string, signal: AbortSignal | undefined): Promise<void> {
    const ids = new Set(this.#peers.connections().map(({ peerId }) => peerId))
    await Promise.all(
      [...ids].map(async (peerId) => {
        try {
          const body = await this.#peers.request(peerId, askType, { resource }, { signal: within(askMs, signal) })
          if (body !== null) await this.#hear(body, peerId)
        } catch {
          // One that says what cannot be says nothing, and keeps nobody from working.
          signal?.throwIfAborted()
        }
      }),
    )
  }

  async #announce(resource: string, signal: AbortSignal | undefined): Promise<void> {
    const ids = new Set(this.#peers.connections().map(({ peerId }) => peerId))
    await Promise.all(
      [...ids].map((peerId) =>
        this.#peers
          .request(peerId, announceType, this.#book.get(resource), { signal: within(askMs, signal) })
          // It hears of it when it connects again.
          .catch(() => undefined),
      ),
    )
    signal?.throwIfAborted()
  }

  async #tellAll(peerId: string): Promise<void> {
    for (const entry of this.#book.entries()) {
      await this.#peers
        .request(peerId, announceType, entry, { signal: within(askMs, undefined) })
        .catch(() => undefined)
    }
  }

  /**
   * What a peer says counts if its token is higher. Only an owner gives away what it has, so a peer that speaks of what is
   * owned here gets nowhere unless a person said that this host is dead.
   */
  async #hear(body: unknown, from: string): Promise<null> {
    const heard = OwnershipBook.entry(body)
    const known = this.#book.get(heard.resource)
    const isConflict = known?.token === heard.token && known.owner !== heard.owner
    if (isConflict && heard.owner === undefined && known.owner === this.self)
      throw new EGpuError(
        EGpuErrorCode.MalformedData,
        `${from} says that this host gave up ${heard.resource}: it did not`,
      )
    if (isConflict && heard.owner !== undefined && (known.owner ?? '') > heard.owner) return null
    if (!isConflict && heard.token <= (known?.token ?? 0)) return null
    if (heard.token > (known?.token ?? 0) + mostSteps) {
      throw new EGpuError(EGpuErrorCode.MalformedData, `${from} speaks of token ${heard.token}, which cannot be yet`)
    }
    await this.#book.hear(heard, from)
    this.#bell.ring()
    return null
  }
}

/** How far a peer may be ahead. One that could name any number could shut everybody out for good. */
const mostSteps = 2 ** 20

/** Peers are asked for a moment; one that hangs does not keep its host from starting work. */
const askMs = 1_000

function resourceOf(body: unknown): string {
  const resource = (body as { resource?: unknown } | null)?.resource
  if (typeof resource === 'string') return resource
  throw new EGpuError(EGpuErrorCode.MalformedData, 'a question about an owner names no resource')
}

function notOwner({ owner, resource }: Ownership, isConnected: boolean): EGpuError {
  const how = isConnected ? 'ask it to hand it over' : `it cannot be reached, and ${noPromotion}`
  return new EGpuError(EGpuErrorCode.NotOwner, `${owner} owns ${resource}: ${how}`)
}
