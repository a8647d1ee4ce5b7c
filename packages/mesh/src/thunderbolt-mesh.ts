import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { abandonable, EGpuError, EGpuErrorCode, type AbortOptions, type ComputeTarget, type Finding } from '@egpu/core'
import { choosePeer } from './choose-peer.ts'
import type { Channel } from './control/channel.ts'
import { ControlPlane, type Refusal } from './control/control-plane.ts'
import type { PairingWindow } from './control/pairing.ts'
import { PairingDesk } from './control/pairing-desk.ts'
import type { PeerConnection, PeerConnections } from './control/peer-connection.ts'
import { Dialer, type DialerTarget } from './discovery/dialer.ts'
import { Discovery } from './discovery/discovery.ts'
import type { Announcement } from './discovery/records.ts'
import { Diagnosis } from './doctor/diagnosis.ts'
import { Topology } from './doctor/topology.ts'
import { MeshEvents, type MeshEvent, type MeshEventType } from './events.ts'
import { hostTag, isTag } from './identity/host-tag.ts'
import type { MeshIdentity } from './identity/identity.ts'
import { defaultMeshDirectory, loadIdentity, type PairedPeer } from './identity/mesh-directory.ts'
import { Trust } from './identity/trust.ts'
import type { CableLink } from './links/cable-link.ts'
import type { LocalAddress } from './links/local-addresses.ts'
import { Lookout } from './lookout.ts'
import { Machine } from './links/machine.ts'
import { LinkMeter } from './measure/link-meter.ts'
import { LinkWatch } from './measure/link-watch.ts'
import { measureSelf } from './measure/probe.ts'
import { ProbeServer } from './measure/probe-server.ts'
import { Members } from './members.ts'
import { defaultPort, staticPeersOf, type MeshOptions } from './mesh-options.ts'
import { Neighbours } from './neighbours.ts'
import { OfferExchange } from './offer-exchange.ts'
import { pairWithNeighbour } from './pair-with-neighbour.ts'
import { bandwidthGbps, type BestPeer, type MeshLink, type MeshPeer, type Neighbour, type PeerPurpose } from './peer.ts'
import { plainText } from './text.ts'

const defaultSettleMs = 3_000
const defaultProbeBytes = 32 * 1024 * 1024
/**
 * The hosts at the other ends of this host's cables: who they are, by which cables they can be reached, how fast those are,
 * and what they offer. `discover()` makes one; it follows every change until it is closed.
 */
export class ThunderboltMesh implements AsyncDisposable {
  /** Fingerprint of this host's key: what it is paired by. */
  readonly nodeId: string
  readonly hostname: string
  readonly #options: MeshOptions
  readonly #identity: MeshIdentity
  readonly #trust: Trust
  readonly #instance: string = randomBytes(8).toString('hex')
  readonly #hostTag: string
  readonly #events = new MeshEvents()
  readonly #machine: Machine
  readonly #members: Members
  readonly #neighbours: Neighbours
  readonly #incumbents = new Map<PeerPurpose, BestPeer>()
  readonly #probes = new ProbeServer()
  readonly #watch: LinkWatch
  readonly #meter: LinkMeter
  readonly #offers: OfferExchange
  readonly #pairing: PairingDesk
  readonly #dialer: Dialer
  readonly #discovery: Discovery
  readonly #topology = new Topology()
  readonly #diagnosis: Diagnosis
  readonly #lookout: Lookout
  #plane: ControlPlane | undefined
  #probePort: number | undefined
  #controlPort = 0
  #closing: Promise<void> | undefined

  private constructor(options: MeshOptions) {
    this.#options = options
    const directory = options.directory ?? defaultMeshDirectory()
    this.#identity = options.identity ?? loadIdentity(directory)
    this.#trust = new Trust(directory, options.isPaired)
    this.nodeId = this.#identity.nodeId
    this.hostname = plainText(options.name ?? hostname())
    this.#hostTag = options.hostTag ?? hostTag()
    this.#machine = new Machine(options)
    this.#pairing = new PairingDesk({
      self: { identity: this.#identity, name: this.hostname },
      onWindow: () => this.#discovery.announce(),
      onPaired: (peer) => this.trust(peer),
    })
    this.#watch = new LinkWatch({
      onNetwork: (withoutCarrier) => this.#lookout.networkChanged(new Set(withoutCarrier)),
      onState: (id, state) => this.#members.beatState(id, state),
      onFailure: () => {},
    })
    this.#meter = new LinkMeter({
      probeBytes: options.probeBytes ?? defaultProbeBytes,
      onMeasured: (channel) => this.#members.refresh(channel),
      measureSelf: (signal) => measureSelf(this.#probes, { signal }),
    })
    this.#members = new Members({
      machine: this.#machine,
      meter: this.#meter,
      watch: this.#watch,
      events: this.#events,
      visitor: options.visitor ?? false,
      connections: (peerId) => this.#plane?.connections(peerId) ?? [],
      onChanged: () => this.#diagnosis.update(),
      onPeerLost: (peerId) => this.#topology.forget(peerId),
    })
    this.#offers = new OfferExchange({
      isVisitor: options.visitor ?? false,
      targets: options.targets ?? [],
      onOffer: (peerId, offered) => this.#members.offered(peerId, offered),
      onRefusal: (refusal) => this.#refused(refusal),
    })
    this.#dialer = new Dialer({
      nodeId: this.nodeId,
      dial: ({ host, port, peerId }, signal) => this.#control.dial({ host, port, peerId }, { signal }),
      connected: (target, peerId) => this.#connected(target, peerId),
    })
    this.#neighbours = new Neighbours({
      nodeId: this.nodeId,
      instance: this.#instance,
      hostTag: this.#hostTag,
      isPaired: (peerId) => this.#trust.has(peerId),
      want: (key, target) => this.#dialer.want(key, target),
      onNew: (neighbour) => this.#heardOf(neighbour),
    })
    this.#diagnosis = new Diagnosis({
      nodeId: this.nodeId,
      machine: this.#machine,
      members: this.#members,
      neighbours: this.#neighbours,
      topology: this.#topology,
      onChanged: (findings) => this.#events.emit('findings-changed', { findings }),
    })
    this.#discovery = new Discovery({
      announcement: () => this.#announcement(),
      onSighting: (sighting) => this.#neighbours.sighted(sighting),
    })
    this.#lookout = new Lookout({
      machine: this.#machine,
      watch: this.#watch,
      discovery: this.#discovery,
      dialer: this.#dialer,
      neighbours: this.#neighbours,
      members: this.#members,
      diagnosis: this.#diagnosis,
      topology: this.#topology,
    })
  }

  /**
   * Begins to look for paired hosts on every cable and resolves once each cable has answered, at the latest after
   * `settleMs`; whoever answers later comes as events. Needs no rights, no LAN and no server. Keeps the process alive until
   * it is closed.
   * Rejects with `EGPU_IDENTITY_COPIED` when the folder with the key came from another machine, `TypeError` for a static
   * peer that is no address or a host tag that is none, `signal.reason` on abort.
   */
  static async discover(options: MeshOptions = {}): Promise<ThunderboltMesh> {
    options.signal?.throwIfAborted()
    const peers = staticPeersOf(options)
    // The peers would refuse every connection.
    if (options.hostTag !== undefined && !isTag(options.hostTag))
      throw new TypeError(`"${options.hostTag}" is no host tag; it takes 16 hex digits, or leave it out`)
    const mesh = new ThunderboltMesh(options)
    try {
      await abandonable(mesh.#start(), options.signal)
      for (const { host, port } of peers)
        mesh.#dialer.want(`static ${host} ${port}`, { host, port, peerId: undefined, interfaceName: undefined })
      await mesh.#settle(options)
      return mesh
    } catch (error) {
      await mesh.close()
      throw error
    }
  }

  /** Paired hosts that can be reached now. */
  get peers(): readonly MeshPeer[] {
    return this.#members.peers
  }

  get activePeerCount(): number {
    return this.#members.size
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
    return this.#machine.inventory.links
  }

  /** Hosts on the cables that are not paired: claims, to pair with. */
  get neighbours(): readonly Neighbour[] {
    return this.#neighbours.unpaired
  }

  /** What a person should know or do, worst first. */
  get findings(): readonly Finding[] {
    return this.#diagnosis.findings
  }

  /** Port of the control plane: what to write into another host's `EGPU_MESH_PEERS`. */
  get port(): number {
    return this.#controlPort
  }

  /** Authenticated connections to all peers: for whoever builds upon the mesh. */
  get control(): PeerConnections {
    return this.#control
  }

  /**
   * The peer to use for a purpose, and how to reach it: `address` is to be dialled as it stands, its zone makes it leave by
   * `interfaceName`. A cable goes before any network. The same answer as last time unless another is better by more than
   * the noise: a tenth of the bandwidth, or 10 to 25 µs. `undefined` while no peer is connected.
   */
  bestPeer({ for: purpose = 'latency' }: { readonly for?: PeerPurpose } = {}): BestPeer | undefined {
    const best = choosePeer(this.peers, purpose, this.#incumbents.get(purpose))
    if (best === undefined) this.#incumbents.delete(purpose)
    else this.#incumbents.set(purpose, best)
    return best
  }

  /** What this host offers, replacing what it offered before. Peers hear of it at once. */
  offer(targets: readonly ComputeTarget[]): void {
    this.#offers.offer(targets, this.#control.connections())
  }

  /** Measures a link anew: latency, then `bytes` each way. `EGPU_PEER_LOST` when it is not up. */
  async measure(
    linkId: string,
    options: AbortOptions & { readonly bytes?: number | undefined } = {},
  ): Promise<MeshLink> {
    const channel = this.#members.channelOf(linkId)
    if (channel === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, `no link ${linkId} is up`)
    await this.#meter.measure(channel, options)
    const link = this.#members.link(channel)
    if (link === undefined) throw new EGpuError(EGpuErrorCode.PeerLost, `link ${linkId} went down`)
    return link
  }

  /** Shows a code for another host's `pairWith`. One at a time; the one before is closed. */
  openPairing(): Promise<PairingWindow> {
    return this.#pairing.open()
  }

  /**
   * Pairs with whichever neighbour shows `code`. Rejects with `EGPU_PEER_NOT_TRUSTED` when none of them takes it, and with
   * `EGPU_PEER_LOST` when no neighbour shows a code.
   */
  async pairWith(code: string, options: AbortOptions = {}): Promise<PairedPeer> {
    const self = { identity: this.#identity, name: this.hostname }
    const peer = await pairWithNeighbour(self, this.#neighbours.all, code, options)
    this.trust(peer)
    return peer
  }

  /** Pairs with a host whose fingerprint was brought over by other means. The other host has to do the same. */
  trust(peer: PairedPeer): void {
    this.#trust.add(peer)
    this.#neighbours.pursue()
    this.#dialer.hurry()
    this.#diagnosis.update()
  }

  /** Ends the pairing; open connections are closed. Resolves to whether there was one. */
  forget(peerId: string): boolean {
    const was = this.#trust.remove(peerId)
    for (const channel of this.#control.connections(peerId)) channel.close('closed-here', 'the pairing was ended')
    return was
  }

  /** Calls `listener` from now on; returns what ends it. */
  on<T extends MeshEventType>(type: T, listener: (event: MeshEvent<T>) => unknown): () => void {
    return this.#events.on(type, listener)
  }

  /** The next event of a type, optionally of those for which `where` holds. Rejects with `EGPU_CLOSED` when the mesh is closed. */
  next<T extends MeshEventType>(
    type: T,
    options: AbortOptions & { readonly where?: (event: MeshEvent<T>) => boolean } = {},
  ): Promise<MeshEvent<T>> {
    return this.#events.next(type, options)
  }

  /** All events from now on, until the mesh is closed or `signal` fires. */
  events(options: AbortOptions = {}): AsyncIterableIterator<MeshEvent> {
    return this.#events.stream(options)
  }

  /** Ends everything; peers hear of it at once. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#lookout.close()
    this.#dialer.close()
    this.#discovery.close()
    this.#meter.close()
    await this.#pairing.close()
    await this.#plane?.close()
    await this.#probes.close()
    await this.#watch.close()
    this.#events.close(new EGpuError(EGpuErrorCode.Closed, 'the mesh was closed'))
  }

  get #control(): ControlPlane {
    if (this.#plane === undefined) throw new EGpuError(EGpuErrorCode.Closed, 'the mesh did not start')
    return this.#plane
  }

  async #start(): Promise<void> {
    const visitor = this.#options.visitor ?? false
    this.#probePort = await this.#probes.listen()
    const heartbeatPort = await this.#watch.port()
    this.#plane = new ControlPlane({
      identity: this.#identity,
      name: this.hostname,
      instance: this.#instance,
      hostTag: this.#hostTag,
      visitor,
      isPaired: (peerId) => this.#trust.has(peerId),
      cableOf: (interfaceName) => this.#machine.cableOf(interfaceName),
      heartbeatPort: visitor ? undefined : heartbeatPort,
      onRefusal: (refusal) => this.#refused(refusal),
      onPairing: (socket) => this.#pairing.accept(socket),
    })
    this.#plane.onConnection((connection) => this.#connectedTo(connection as Channel))
    this.#plane.handle('mesh.probe', (_body, { connection }) => this.#grantProbe(connection))
    this.#offers.serve(this.#plane)
    this.#plane.handle('mesh.topology', () => this.#topology.report())
    await this.#lookout.begin(this.#plane)
    this.#controlPort = await this.#listen()
    this.#lookout.start()
    this.#diagnosis.update()
  }

  async #listen(): Promise<number> {
    const { port } = this.#options
    if (port !== undefined || this.#options.visitor === true) return this.#control.listen(port ?? 0)
    return this.#control.listen(defaultPort).catch(() => this.#control.listen(0))
  }

  /** Waits until every cable that is up answered, or nothing more is to be expected. */
  async #settle({ settleMs = defaultSettleMs, signal }: MeshOptions): Promise<void> {
    const until = performance.now() + settleMs
    const isAnswered = ({ interfaceName }: LocalAddress): boolean =>
      this.neighbours.some((neighbour) => neighbour.interfaceName === interfaceName) ||
      this.#members.isMeasured(interfaceName)
    while (performance.now() < until) {
      signal?.throwIfAborted()
      const cables = this.#machine.addresses.filter(
        ({ interfaceName }) => this.#machine.cableOf(interfaceName) !== undefined,
      )
      const expectsOthers = this.#options.lan === true || staticPeersOf(this.#options).length > 0
      if (cables.every(isAnswered) && (!expectsOthers || this.#members.size > 0)) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  #announcement(): Announcement | undefined {
    if (this.#controlPort === 0 || (this.#options.visitor === true && !this.#pairing.isOpen)) return undefined
    return {
      nodeId: this.nodeId,
      instance: this.#instance,
      hostTag: this.#hostTag,
      port: this.#controlPort,
      pairing: this.#pairing.isOpen,
    }
  }

  #heardOf(neighbour: Neighbour): void {
    // It has just come up, so it may have missed what this host said before.
    this.#discovery.announce(neighbour.interfaceName)
    if (this.#trust.has(neighbour.id)) return
    this.#events.emit('neighbour-found', { neighbour })
    this.#diagnosis.update()
  }

  #connected({ interfaceName }: DialerTarget, peerId: string | undefined): PeerConnection | undefined {
    if (peerId === undefined) return undefined
    const open = this.#control.connections(peerId)
    // A written-down peer may be reached by any link, a seen one by the link it was seen on.
    return interfaceName === undefined ? open[0] : open.find(({ link }) => link.interfaceName === interfaceName)
  }

  #connectedTo(channel: Channel): void {
    this.#members.connected(channel)
    this.#offers.exchange(channel)
    this.#diagnosis.update()
  }

  #grantProbe(connection: PeerConnection): { port: number; token: string } {
    const token = this.#probes.grant(connection.link.address)
    if (token === undefined || this.#probePort === undefined)
      throw new EGpuError(EGpuErrorCode.PeerRefused, 'too many probes at once; try again in a few seconds')
    return { port: this.#probePort, token }
  }

  #refused(refusal: Refusal): void {
    if (refusal.error.code === EGpuErrorCode.PeerLost) return
    this.#events.emit('refused', refusal)
    if (refusal.error.code === EGpuErrorCode.IdentityCopied) this.#diagnosis.copied(refusal.error.message)
  }
}
