import type { ComputeTarget } from '@egpu/core'
import type { Channel } from './control/channel.ts'
import type { PeerConnection, PeerConnectionEnd } from './control/peer-connection.ts'
import type { MeshEvents } from './events.ts'
import type { Machine } from './links/machine.ts'
import type { LinkMeter } from './measure/link-meter.ts'
import type { LinkState, LinkWatch } from './measure/link-watch.ts'
import type { MeshLink, MeshPeer } from './peer.ts'

/** Without heartbeats a peer is asked whether it lives, this often, and given up after as long without an answer. */
const askEveryMs = 500
const answerWithinMs = 1_200

interface Member {
  readonly peerId: string
  hostname: string
  targets: readonly ComputeTarget[]
  readonly links: Map<string, LinkRecord>
}

interface LinkRecord {
  channel: Channel
  beatId: number | undefined
  isUnheard: boolean
  /** Its latency was measured, or could not be. */
  isProbed: boolean
  snapshot: MeshLink
}

export interface MembersOptions {
  readonly machine: Machine
  readonly meter: LinkMeter
  readonly watch: LinkWatch
  readonly events: MeshEvents
  /** A visitor sends no heartbeats. */
  readonly visitor: boolean
  /** Connections to a peer, best first. */
  readonly connections: (peerId: string) => readonly PeerConnection[]
  /** Something changed that findings may come of. */
  readonly onChanged: () => void
  readonly onPeerLost: (peerId: string) => void
}

/** The peers that can be reached and the links to them: follows each connection from its first moment to its end. */
export class Members {
  /** Interfaces with carrier whose link broke all the same. */
  readonly broken: Map<string, 'silent' | 'one-way'> = new Map()
  readonly #options: MembersOptions
  readonly #members = new Map<string, Member>()
  readonly #beats = new Map<number, LinkRecord>()

  constructor(options: MembersOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#members.size
  }

  get peers(): readonly MeshPeer[] {
    return [...this.#members.values()].map((member) => this.#peerOf(member))
  }

  /** Links on which no heartbeat ever arrived although requests do, by interface or address. */
  get unheard(): readonly string[] {
    return this.#records
      .filter(({ isUnheard }) => isUnheard)
      .map(({ channel: { link } }) => link.interfaceName ?? link.address)
  }

  channelOf(linkId: string): Channel | undefined {
    return this.#records.find(({ channel }) => channel.link.id === linkId)?.channel
  }

  link(channel: Channel): MeshLink | undefined {
    return this.#members.get(channel.peerId)?.links.get(channel.link.id)?.snapshot
  }

  /** Whether a peer, or this one, was reached by this interface and asked how far it is. */
  hasProbed(interfaceName: string, peerId?: string): boolean {
    return this.#records.some(
      ({ channel, isProbed }) =>
        isProbed && channel.link.interfaceName === interfaceName && (peerId ?? channel.peerId) === channel.peerId,
    )
  }

  /** A connection opened, perhaps in place of an older one over the same link. */
  connected(channel: Channel): void {
    const { events, meter } = this.#options
    const { peerId, hello, link } = channel
    const member: Member = this.#members.get(peerId) ?? { peerId, hostname: hello.name, targets: [], links: new Map() }
    const isNewMember = member.links.size === 0
    this.#members.set(peerId, member)
    const known = member.links.get(link.id)
    const record: LinkRecord = known ?? {
      channel,
      beatId: undefined,
      isUnheard: false,
      isProbed: false,
      snapshot: this.#linkOf(channel),
    }
    this.#stopBeats(record)
    record.channel = channel
    record.isUnheard = false
    this.#startBeats(record)
    member.links.set(link.id, record)
    if (link.interfaceName !== undefined) this.broken.delete(link.interfaceName)
    void channel.closed.then((end) => this.#ended(member, record, channel, end))
    if (isNewMember) events.emit('peer-connected', { peer: this.#peerOf(member) })
    if (known === undefined) events.emit('link-up', { peer: this.#peerOf(member), link: record.snapshot })
    if (hello.name !== member.hostname) {
      member.hostname = hello.name
      events.emit('peer-changed', { peer: this.#peerOf(member) })
    }
    void meter.watch(channel).then(() => {
      // Of one that another took the place of nothing is known.
      if (record.channel === channel) record.isProbed = true
    })
  }

  offered(peerId: string, targets: readonly ComputeTarget[]): void {
    const member = this.#members.get(peerId)
    if (member === undefined || JSON.stringify(member.targets) === JSON.stringify(targets)) return
    member.targets = targets
    this.#options.events.emit('peer-changed', { peer: this.#peerOf(member) })
  }

  /** What is known of its link may have changed. */
  refresh(channel: Channel): void {
    const member = this.#members.get(channel.peerId)
    const record = member?.links.get(channel.link.id)
    if (member === undefined || record === undefined || record.channel !== channel) return
    const before = record.snapshot
    const after = this.#linkOf(channel)
    if (JSON.stringify(before) === JSON.stringify(after)) return
    record.snapshot = after
    this.#options.events.emit('link-changed', { peer: this.#peerOf(member), before, after })
  }

  /** What the heartbeats of a link say. */
  beatState(beatId: number, state: LinkState): void {
    const record = this.#beats.get(beatId)
    if (record === undefined) return
    const { channel } = record
    if (state === 'silent') channel.close('silent', 'nothing arrived over the link any more')
    else if (state === 'one-way') channel.close('one-way', 'the peer can be heard but hears nothing')
    else {
      record.isUnheard = state === 'unheard'
      if (record.isUnheard) void this.#askWhetherAlive(record, channel)
      this.#options.onChanged()
    }
  }

  get #records(): readonly LinkRecord[] {
    return [...this.#members.values()].flatMap(({ links }) => [...links.values()])
  }

  #ended(member: Member, record: LinkRecord, channel: Channel, { reason, message }: PeerConnectionEnd): void {
    if (record.channel !== channel) return
    const { events, onChanged, onPeerLost } = this.#options
    this.#stopBeats(record)
    member.links.delete(channel.link.id)
    if (member.links.size === 0) this.#members.delete(member.peerId)
    const { interfaceName } = channel.link
    if (interfaceName !== undefined && (reason === 'silent' || reason === 'one-way'))
      this.broken.set(interfaceName, reason)
    const peer = this.#peerOf(member)
    events.emit('link-down', { peer, link: record.snapshot, reason, message })
    if (member.links.size === 0) {
      onPeerLost(member.peerId)
      events.emit('peer-lost', { peer })
    }
    onChanged()
  }

  #startBeats(record: LinkRecord): void {
    const { hello, link, dialled } = record.channel
    if (this.#options.visitor || hello.heartbeatPort === undefined) return
    record.beatId = this.#options.watch.add({
      key: record.channel.exportKey('heartbeat'),
      address: link.address,
      port: hello.heartbeatPort,
      side: dialled ? 0 : 1,
    })
    this.#beats.set(record.beatId, record)
  }

  #stopBeats(record: LinkRecord): void {
    if (record.beatId === undefined) return
    this.#options.watch.remove(record.beatId)
    this.#beats.delete(record.beatId)
    record.beatId = undefined
  }

  async #askWhetherAlive(record: LinkRecord, channel: Channel): Promise<void> {
    while (record.isUnheard && channel.isOpen) {
      const answer = channel.request('mesh.alive', undefined, { signal: AbortSignal.timeout(answerWithinMs) })
      const isAlive = await answer.then(
        () => true,
        () => false,
      )
      if (!isAlive) channel.close('silent', 'the peer did not answer any more')
      await new Promise((resolve) => setTimeout(resolve, askEveryMs).unref())
    }
  }

  #linkOf(channel: Channel): MeshLink {
    const { id, kind, interfaceName, address, localAddress } = channel.link
    const cable = this.#options.machine.cableOf(interfaceName)
    return {
      id,
      kind,
      interfaceName,
      address,
      localAddress,
      port: cable?.port,
      sticker: cable?.sticker,
      trained: cable?.trained,
      measured: this.#options.meter.of(channel),
      mtu: cable?.mtu,
      remoteMtu: channel.hello.end.mtu,
    }
  }

  #peerOf({ peerId, hostname, targets, links }: Member): MeshPeer {
    const order = new Map(this.#options.connections(peerId).map(({ link }, index) => [link.id, index]))
    const rank = ({ id }: MeshLink): number => order.get(id) ?? order.size
    const snapshots = [...links.values()].map(({ snapshot }) => snapshot)
    return { id: peerId, hostname, targets, links: snapshots.toSorted((a, b) => rank(a) - rank(b)) }
  }
}
