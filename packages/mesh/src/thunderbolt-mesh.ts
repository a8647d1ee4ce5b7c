import { EGpuError, EGpuErrorCode, type AbortOptions, type ComputeTarget, type Finding } from '@egpu/core'
import { abort, assertKind, assertOptions, nodeId, offered, oneOf, optional, text, wholeNumber } from './arguments.ts'
import { choosePeer } from './choose-peer.ts'
import { digitsOf } from './control/pairing.ts'
import type { PairingWindow } from './control/pairing.ts'
import type { PeerConnections } from './control/peer-connection.ts'
import type { MeshEvent, MeshEventType } from './events.ts'
import type { PairedPeer } from './identity/mesh-directory.ts'
import type { CableLink } from './links/cable-link.ts'
import { mostProbeBytes } from './measure/probe-server.ts'
import { MeshNode } from './mesh-node.ts'
import { assertMeshOptions, type MeshOptions } from './mesh-options.ts'
import { neighboursToPairWith, pairWithNeighbour } from './pair-with-neighbour.ts'
import { bandwidthGbps, peerPurposes } from './peer.ts'
import type { BestPeer, MeshLink, MeshPeer, Neighbour, PeerPurpose } from './peer.ts'

const defaultSettleMs = 3_000

/**
 * The hosts at the other ends of this host's cables: who they are, by which cables they can be reached, how fast those are,
 * and what they offer. `discover()` makes one; it follows every change until it is closed.
 */
export class ThunderboltMesh implements AsyncDisposable {
  /** Fingerprint of this host's key: what it is paired by. */
  readonly nodeId: string
  readonly hostname: string
  readonly #node: MeshNode
  readonly #incumbents = new Map<PeerPurpose, BestPeer>()
  #closing: Promise<void> | undefined

  private constructor(node: MeshNode) {
    this.#node = node
    this.nodeId = node.identity.nodeId
    this.hostname = node.name
  }

  /**
   * Begins to look for paired hosts on every cable and resolves once each cable has answered, at the latest after
   * `settleMs`; whoever answers later comes as events. Needs no rights, no LAN and no server. Keeps the process alive until
   * it is closed.
   * Rejects with `EGPU_IDENTITY_COPIED` when the folder with the key came from another machine, `EGPU_PERMISSION_DENIED` or
   * `EGPU_MALFORMED_DATA` when it cannot be used, `TypeError` for an option that cannot be, `signal.reason` on abort.
   */
  static async discover(options: MeshOptions = {}): Promise<ThunderboltMesh> {
    assertMeshOptions(options)
    const { settleMs = defaultSettleMs, signal } = options
    signal?.throwIfAborted()
    const node = new MeshNode(options)
    const mesh = new ThunderboltMesh(node)
    try {
      await node.start({ signal })
      await node.settle(settleMs, { signal })
      return mesh
    } catch (error) {
      await mesh.close()
      throw error
    }
  }

  /** Paired hosts that can be reached now. */
  get peers(): readonly MeshPeer[] {
    return this.#node.members.peers
  }

  get activePeerCount(): number {
    return this.#node.members.size
  }

  /**
   * What the cables to active peers carry together, in Gb/s, as trained and in the slower direction of each. A cable whose
   * lanes the operating system does not tell counts as it was measured, or not at all.
   */
  get totalBandwidthGbps(): number {
    return bandwidthGbps(this.peers)
  }

  /** Every cable the operating system knows, with or without a peer behind it. */
  get cables(): readonly CableLink[] {
    return this.#node.machine.inventory.links
  }

  /** Hosts on the cables that are not paired: claims, to pair with. */
  get neighbours(): readonly Neighbour[] {
    return this.#node.neighbours.unpaired
  }

  /** What a person should know or do, worst first. */
  get findings(): readonly Finding[] {
    return this.#node.diagnosis.findings
  }

  /** Port of the control plane: what to write into another host's `EGPU_MESH_PEERS`. */
  get port(): number {
    return this.#node.port
  }

  /** Authenticated connections to all peers: for whoever builds upon the mesh. */
  get control(): PeerConnections {
    return this.#node.control
  }

  /**
   * The peer to use for a purpose, and how to reach it: `address` is to be dialled as it stands, its zone makes it leave by
   * `interfaceName`. A cable goes before any network. The same answer as last time unless another is better by more than
   * the noise: a tenth of the bandwidth, or 10 to 25 µs. `undefined` while no peer is connected.
   */
  bestPeer(options: { readonly for?: PeerPurpose } = {}): BestPeer | undefined {
    assertOptions('what to choose a peer by', options, { for: optional(oneOf(peerPurposes)) })
    const { for: purpose = 'latency' } = options
    const best = choosePeer(this.peers, purpose, this.#incumbents.get(purpose))
    if (best === undefined) this.#incumbents.delete(purpose)
    else this.#incumbents.set(purpose, best)
    return best
  }

  /** What this host offers, replacing what it offered before. Peers hear of it at once. */
  offer(targets: readonly ComputeTarget[]): void {
    assertKind('targets', targets, offered)
    this.#node.offers.offer(targets, this.#node.control.connections())
  }

  /** Measures a link anew: latency, then `bytes` each way. `EGPU_PEER_LOST` when it is not up. */
  async measure(
    linkId: string,
    options: AbortOptions & { readonly bytes?: number | undefined } = {},
  ): Promise<MeshLink> {
    assertKind('linkId', linkId, text)
    assertOptions('the options of measure', options, { ...abort, bytes: optional(wholeNumber(1, mostProbeBytes)) })
    const channel = this.#node.members.channelOf(linkId)
    if (channel === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, `no link ${linkId} is up`)
    await this.#node.meter.measure(channel, options)
    const link = this.#node.members.link(channel)
    if (link === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, `link ${linkId} went down`)
    return link
  }

  /** Shows a code for another host's `pairWith`. One at a time; the one before is closed. */
  async openPairing(): Promise<PairingWindow> {
    this.#assertOpen()
    return this.#node.pairing.open()
  }

  /**
   * Pairs with whichever neighbour shows `code`. Rejects with `EGPU_PEER_NOT_TRUSTED` when none of them takes it, with
   * `EGPU_PEER_LOST` when no neighbour shows a code within three seconds, and with a `TypeError` for what is no code.
   */
  async pairWith(code: string, options: AbortOptions = {}): Promise<PairedPeer> {
    digitsOf(code)
    assertOptions('the options of pairWith', options, abort)
    this.#assertOpen()
    const { identity, neighbours } = this.#node
    const inSight = await neighboursToPairWith(neighbours, options)
    const peer = await pairWithNeighbour({ identity, name: this.hostname }, inSight, code, options)
    this.#node.trust(peer)
    return peer
  }

  /** Pairs with a host whose fingerprint was brought over by other means. The other host has to do the same. */
  trust(peer: PairedPeer): void {
    assertOptions('a peer to trust', peer, { id: nodeId, name: text, pairedAt: text })
    this.#node.trust(peer)
  }

  /** Ends the pairing; open connections are closed. Resolves to whether there was one. */
  forget(peerId: string): boolean {
    assertKind('peerId', peerId, nodeId)
    return this.#node.forget(peerId)
  }

  /** Calls `listener` from now on; returns what ends it. */
  on<T extends MeshEventType>(type: T, listener: (event: MeshEvent<T>) => unknown): () => void {
    return this.#node.events.on(type, listener)
  }

  /** The next event of a type, optionally of those for which `where` holds. Rejects with `EGPU_CLOSED` when the mesh is closed. */
  async next<T extends MeshEventType>(
    type: T,
    options: AbortOptions & { readonly where?: (event: MeshEvent<T>) => boolean } = {},
  ): Promise<MeshEvent<T>> {
    return this.#node.events.next(type, options)
  }

  /** All events from now on, until the mesh is closed or `signal` fires. */
  events(options: AbortOptions = {}): AsyncIterableIterator<MeshEvent> {
    return this.#node.events.stream(options)
  }

  /** Ends everything; peers hear of it at once. */
  close(): Promise<void> {
    return (this.#closing ??= this.#node.close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new EGpuError(EGpuErrorCode.Closed, 'the mesh was closed')
  }
}
