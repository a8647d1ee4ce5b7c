import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { abandonable, EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import type { Channel } from './control/channel.ts'
import { ControlPlane, type Refusal } from './control/control-plane.ts'
import { PairingDesk } from './control/pairing-desk.ts'
import type { PeerConnection } from './control/peer-connection.ts'
import { Dialer, type DialerTarget } from './discovery/dialer.ts'
import { Discovery } from './discovery/discovery.ts'
import type { Announcement } from './discovery/records.ts'
import { Diagnosis } from './doctor/diagnosis.ts'
import { Topology } from './doctor/topology.ts'
import { MeshEvents } from './events.ts'
import { hostTag } from './identity/host-tag.ts'
import type { MeshIdentity } from './identity/identity.ts'
import { defaultMeshDirectory, loadIdentity, loadPeers, type PairedPeer } from './identity/mesh-directory.ts'
import { Trust } from './identity/trust.ts'
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
import type { Neighbour } from './peer.ts'
import { RefusalGate } from './refusal-gate.ts'
import { isSettled } from './settling.ts'
import { plainText } from './text.ts'

const defaultProbeBytes = 32 * 1024 * 1024

/** The parts of a mesh on this host, made and joined: who hears of what, from its start to its end. */
export class MeshNode {
  readonly identity: MeshIdentity
  readonly name: string
  readonly events: MeshEvents = new MeshEvents()
  readonly machine: Machine
  readonly members: Members
  readonly neighbours: Neighbours
  readonly meter: LinkMeter
  readonly offers: OfferExchange
  readonly pairing: PairingDesk
  readonly diagnosis: Diagnosis
  readonly #options: MeshOptions
  readonly #isVisitor: boolean
  /** Peers that were written down. */
  readonly #statics: ReadonlyMap<string, DialerTarget>
  readonly #trust: Trust
  readonly #refusals = new RefusalGate()
  readonly #instance: string = randomBytes(8).toString('hex')
  readonly #hostTag: string
  readonly #probes = new ProbeServer()
  readonly #watch: LinkWatch
  readonly #dialer: Dialer
  readonly #discovery: Discovery
  readonly #topology = new Topology()
  readonly #lookout: Lookout
  #plane: ControlPlane | undefined
  #probePort: number | undefined
  #controlPort = 0
  readonly #reached = new Set<DialerTarget>()
  #isClosed = false

  constructor(options: MeshOptions) {
    const { directory = defaultMeshDirectory(), visitor = false } = options
    this.#options = options
    this.#isVisitor = visitor
    this.#statics = new Map(
      staticPeersOf(options).map(({ host, port }) => [
        `static ${host} ${port}`,
        { host, port, peerId: undefined, interfaceName: undefined },
      ]),
    )
    this.identity = options.identity ?? loadIdentity(directory)
    this.#trust = new Trust(directory, options.isPaired)
    this.name = plainText(options.name ?? hostname())
    this.#hostTag = options.hostTag ?? hostTag()
    this.machine = new Machine(options)
    this.pairing = new PairingDesk({
      self: { identity: this.identity, name: this.name },
      onWindow: () => this.#discovery.announce(),
      onPaired: (peer) => this.trust(peer),
    })
    this.#watch = new LinkWatch({
      onNetwork: (withoutCarrier) => this.#lookout.networkChanged(new Set(withoutCarrier)),
      onState: (id, state) => this.members.beatState(id, state),
      onFailure: () => {},
    })
    this.meter = new LinkMeter({
      probeBytes: options.probeBytes ?? defaultProbeBytes,
      onMeasured: (channel) => this.members.refresh(channel),
      measureSelf: (signal) => measureSelf(this.#probes, { signal }),
    })
    this.members = new Members({
      machine: this.machine,
      meter: this.meter,
      watch: this.#watch,
      events: this.events,
      visitor,
      connections: (peerId) => this.#plane?.connections(peerId) ?? [],
      onChanged: () => this.diagnosis.update(),
      onPeerLost: (peerId) => this.#topology.forget(peerId),
    })
    this.offers = new OfferExchange({
      isVisitor: visitor,
      targets: options.targets ?? [],
      onOffer: (peerId, offered) => this.members.offered(peerId, offered),
      onRefusal: (refusal) => this.#refused(refusal),
    })
    this.#dialer = new Dialer({
      nodeId: this.identity.nodeId,
      dial: (target, signal) => this.#dial(target, signal),
      connected: (target, peerId) => this.#connected(target, peerId),
    })
    this.neighbours = new Neighbours({
      nodeId: this.identity.nodeId,
      instance: this.#instance,
      hostTag: this.#hostTag,
      isPaired: (peerId) => this.#trust.has(peerId),
      want: (key, target) => this.#dialer.want(key, target),
      onNew: (neighbour) => this.#heardOf(neighbour),
    })
    this.diagnosis = new Diagnosis({
      nodeId: this.identity.nodeId,
      machine: this.machine,
      members: this.members,
      neighbours: this.neighbours,
      topology: this.#topology,
      unreadablePeers: () => this.#trust.trouble,
      onChanged: (findings) => this.events.emit('findings-changed', { findings }),
    })
    this.#discovery = new Discovery({
      announcement: () => this.#announcement(),
      onSighting: (sighting) => this.neighbours.sighted(sighting),
    })
    this.#lookout = new Lookout({
      machine: this.machine,
      watch: this.#watch,
      discovery: this.#discovery,
      dialer: this.#dialer,
      neighbours: this.neighbours,
      members: this.members,
      diagnosis: this.diagnosis,
      topology: this.#topology,
    })
  }

  /** Port of the control plane; 0 before `start`. */
  get port(): number {
    return this.#controlPort
  }

  get control(): ControlPlane {
    if (this.#plane === undefined) throw new EGpuError(EGpuErrorCode.Closed, 'the mesh did not start')
    return this.#plane
  }

  /** Begins to look for hosts. `signal` ends the wait; `close` is to be called then. */
  async start({ signal }: AbortOptions): Promise<void> {
    await abandonable(this.#startUnlessClosed(), signal)
    for (const [key, target] of this.#statics) this.#dialer.want(key, target)
  }

  /** Waits until everybody answered who can be expected to, at most for so long. */
  async settle(atMostMs: number, { signal }: AbortOptions): Promise<void> {
    const until = performance.now() + atMostMs
    const paired = this.#pairedIds()
    while (performance.now() < until) {
      signal?.throwIfAborted()
      const areReached = [...this.#statics.values()].every((target) => this.#reached.has(target))
      if (areReached && isSettled(this, paired)) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  trust(peer: PairedPeer): void {
    this.#trust.add(peer)
    this.neighbours.pursue()
    this.#dialer.hurry()
    this.diagnosis.update()
  }

  /** Whether it was paired. */
  forget(peerId: string): boolean {
    const was = this.#trust.remove(peerId)
    for (const channel of this.control.connections(peerId)) channel.close('closed-here', 'the pairing was ended')
    return was
  }

  close(): Promise<void> {
    this.#isClosed = true
    return this.#closeParts()
  }

  /** What is closed while it starts cannot all be closed at that moment. */
  async #startUnlessClosed(): Promise<void> {
    try {
      await this.#start()
    } finally {
      if (this.#isClosed) await this.#closeParts()
    }
  }

  async #start(): Promise<void> {
    this.#probePort = await this.#probes.listen()
    const heartbeatPort = await this.#watch.port()
    this.#plane = new ControlPlane({
      identity: this.identity,
      name: this.name,
      instance: this.#instance,
      hostTag: this.#hostTag,
      visitor: this.#isVisitor,
      isPaired: (peerId) => this.#trust.has(peerId),
      cableOf: (interfaceName) => this.machine.cableOf(interfaceName),
      heartbeatPort: this.#isVisitor ? undefined : heartbeatPort,
      onRefusal: (refusal) => this.#refused(refusal),
      onPairing: (socket) => this.pairing.accept(socket),
    })
    this.#plane.onConnection((connection) => this.#connectedTo(connection as Channel))
    this.#plane.handle('mesh.probe', (_body, { connection }) => this.#grantProbe(connection))
    this.offers.serve(this.#plane)
    this.#plane.handle('mesh.topology', () => this.#topology.report())
    await this.#lookout.begin(this.#plane)
    this.#controlPort = await this.#listen()
    this.#lookout.start()
    this.diagnosis.update()
  }

  /** Can be repeated. */
  async #closeParts(): Promise<void> {
    this.#lookout.close()
    this.#dialer.close()
    this.#discovery.close()
    this.meter.close()
    await this.pairing.close()
    await this.#plane?.close()
    await this.#probes.close()
    await this.#watch.close()
    this.events.close(new EGpuError(EGpuErrorCode.Closed, 'the mesh was closed'))
  }

  async #listen(): Promise<number> {
    const { port } = this.#options
    if (port !== undefined || this.#isVisitor) return this.control.listen(port ?? 0)
    return this.control.listen(defaultPort).catch(() => this.control.listen(0))
  }

  /** By the folder, which is not asked where the program names them; then nobody knows how many they are. */
  #pairedIds(): readonly string[] {
    const { isPaired, directory = defaultMeshDirectory() } = this.#options
    if (isPaired !== undefined) return []
    try {
      return loadPeers(directory).map(({ id }) => id)
    } catch {
      // Whoever uses the pairings is told.
      return []
    }
  }

  async #dial(target: DialerTarget, signal: AbortSignal): Promise<PeerConnection> {
    const connection = await this.control.dial(target, { signal })
    this.#reached.add(target)
    return connection
  }

  #announcement(): Announcement | undefined {
    if (this.#controlPort === 0 || (this.#isVisitor && !this.pairing.isOpen)) return undefined
    return {
      nodeId: this.identity.nodeId,
      instance: this.#instance,
      hostTag: this.#hostTag,
      port: this.#controlPort,
      pairing: this.pairing.isOpen,
    }
  }

  #heardOf(neighbour: Neighbour): void {
    // It has just come up, so it may have missed what this host said before.
    this.#discovery.announce(neighbour.interfaceName)
    if (this.#trust.has(neighbour.id)) return
    this.events.emit('neighbour-found', { neighbour })
    this.diagnosis.update()
  }

  #connected({ interfaceName }: DialerTarget, peerId: string | undefined): PeerConnection | undefined {
    if (peerId === undefined) return undefined
    const open = this.control.connections(peerId)
    // A written-down peer may be reached by any link, a seen one by the link it was seen on.
    return interfaceName === undefined ? open[0] : open.find(({ link }) => link.interfaceName === interfaceName)
  }

  #connectedTo(channel: Channel): void {
    this.members.connected(channel)
    this.offers.exchange(channel)
    this.diagnosis.update()
  }

  #grantProbe(connection: PeerConnection): { port: number; token: string } {
    const token = this.#probes.grant(connection.link.address)
    if (token === undefined || this.#probePort === undefined)
      throw new EGpuError(EGpuErrorCode.PeerRefused, 'too many probes at once; try again in a few seconds')
    return { port: this.#probePort, token }
  }

  #refused(refusal: Refusal): void {
    if (refusal.error.code === EGpuErrorCode.PeerLost) return
    if (this.#refusals.isNews(refusal, performance.now())) this.events.emit('refused', refusal)
    if (refusal.error.code === EGpuErrorCode.IdentityCopied) this.diagnosis.copied(refusal.error.message)
  }
}
