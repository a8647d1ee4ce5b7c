import { connect, type TLSSocket } from 'node:tls'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import type { MeshIdentity } from '../identity/identity.ts'
import type { CableLink } from '../links/cable-link.ts'
import { within } from '../deadline.ts'
import { Channel } from './channel.ts'
import { greet, greetingDeadlineMs, type Greeting } from './greet.ts'
import { protocolVersions, type Hello } from './hello.ts'
import { endOf, interfaceOf, routeOf } from './link-route.ts'
import type { PeerConnection, PeerConnections, RequestHandler } from './peer-connection.ts'
import { RequestBudget } from './request-budget.ts'
import { peerOf, Purpose, tlsOptions } from './secure-socket.ts'
import { controlServer, type ControlServer } from './server.ts'

/**
 * How long a known connection has to answer when a second host shows up with the same key. Longer than heartbeats need to
 * give a dead one up (which ends this wait at once), so that a busy host does not lose its place to its copy.
 */
const rivalAnswerMs = 3_000
/** Connections of one peer, with its visitors and those that end: nobody has so many cables. */
const mostPerPeer = 32

export interface ControlPlaneOptions {
  readonly identity: MeshIdentity
  readonly name: string
  /** This run of the process and this running machine, 16 hex digits each. */
  readonly instance: string
  readonly hostTag: string
  readonly visitor: boolean
  readonly isPaired: (peerId: string) => boolean
  /** The cable an interface runs over, by the device tree. */
  readonly cableOf: (interfaceName: string) => CableLink | undefined
  readonly heartbeatPort: number | undefined
  /** A connection was refused, here or there. */
  readonly onRefusal: (refusal: Refusal) => void
  /** Pairing connections, where somebody waits for one. */
  readonly onPairing?: ((socket: TLSSocket) => Promise<void>) | undefined
}

export interface Refusal {
  readonly address: string
  /** By its key, as far as it proved to have one. */
  readonly peerId: string | undefined
  readonly error: EGpuError
}

export interface DialTarget {
  readonly host: string
  readonly port: number
  /** Whom to expect; anybody paired when left out. */
  readonly peerId?: string | undefined
}

/** Keeps one connection per peer and link, whoever dialled, and hands requests to whoever handles them. */
export class ControlPlane implements PeerConnections, AsyncDisposable {
  readonly nodeId: string
  readonly #options: ControlPlaneOptions
  readonly #channels = new Set<Channel>()
  /** Visitors, and connections that another one took the place of. */
  readonly #others = new Set<Channel>()
  readonly #listeners = new Set<(connection: PeerConnection) => void>()
  readonly #handlers = new Map<string, RequestHandler>()
  readonly #budgets = new Map<string, RequestBudget>()
  #server: ControlServer | undefined
  #isClosed = false

  constructor(options: ControlPlaneOptions) {
    this.#options = options
    this.nodeId = options.identity.nodeId
    this.handle('mesh.alive', () => true)
  }

  /** Resolves to the port. */
  async listen(port: number): Promise<number> {
    this.#server = await controlServer({
      identity: this.#options.identity,
      port,
      accept: (socket, purpose) => this.#accept(socket, purpose),
    })
    return this.#server.port
  }

  /** Connects, greets, and resolves to the connection that is used from now on, which may be an older one. */
  async dial({ host, port, peerId }: DialTarget, { signal }: AbortOptions = {}): Promise<PeerConnection> {
    const deadline = within(greetingDeadlineMs, signal)
    let socket: TLSSocket | undefined
    let met: string | undefined
    try {
      socket = await dialSecure(this.#options.identity, host, port, Purpose.Mesh, deadline)
      met = keyOf(socket)
      const greeting = await this.#greet(socket, deadline, true, peerId)
      return await this.#adopt(socket, greeting, true)
    } catch (error) {
      socket?.destroy()
      signal?.throwIfAborted()
      if (deadline.aborted && !EGpuError.is(error))
        throw new EGpuError(
          EGpuErrorCode.Timeout,
          `${host} port ${port} did not answer within ${greetingDeadlineMs} ms`,
          {
            cause: error,
          },
        )
      if (!EGpuError.is(error))
        throw new EGpuError(EGpuErrorCode.PeerLost, `cannot reach ${host} port ${port}: ${(error as Error).message}`, {
          cause: error,
        })
      if (error.code === EGpuErrorCode.PeerNotTrusted || error.code === EGpuErrorCode.IdentityCopied)
        this.#options.onRefusal({ address: host, peerId: met, error })
      throw error
    }
  }

  connections(peerId?: string): readonly Channel[] {
    const wanted = [...this.#channels].filter((channel) => peerId === undefined || channel.peerId === peerId)
    const rank = ({ link, latencyUs }: Channel): [number, number] => [
      link.kind === 'thunderbolt' ? 0 : 1,
      latencyUs ?? Number.MAX_SAFE_INTEGER,
    ]
    return wanted.toSorted((a, b) => {
      const [[kindA, latencyA], [kindB, latencyB]] = [rank(a), rank(b)]
      return kindA - kindB || latencyA - latencyB || (a.link.id < b.link.id ? -1 : 1)
    })
  }

  onConnection(listener: (connection: PeerConnection) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  handle(type: string, handler: RequestHandler): () => void {
    if (this.#handlers.has(type)) throw new TypeError(`requests of type ${type} are handled already`)
    this.#handlers.set(type, handler)
    return () => {
      if (this.#handlers.get(type) === handler) this.#handlers.delete(type)
    }
  }

  async request(peerId: string, type: string, body: unknown, options: AbortOptions = {}): Promise<unknown> {
    const [best] = this.connections(peerId)
    if (best === undefined)
      throw new EGpuError(EGpuErrorCode.PeerLost, `no connection to peer ${peerId.slice(0, 16)} is open`)
    return best.request(type, body, options)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const channel of [...this.#channels, ...this.#others]) channel.close()
    await this.#server?.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #accept(socket: TLSSocket, purpose: Purpose): Promise<void> {
    const [met, address] = [keyOf(socket), socket.remoteAddress ?? 'unknown address']
    try {
      if (purpose === Purpose.Pair) {
        await (this.#options.onPairing?.(socket) ?? socket.destroy())
        return
      }
      const greeting = await this.#greet(socket, AbortSignal.timeout(greetingDeadlineMs), false)
      await this.#adopt(socket, greeting, false)
    } catch (error) {
      if (EGpuError.is(error)) this.#options.onRefusal({ address, peerId: met, error })
    }
  }

  async #greet(socket: TLSSocket, signal: AbortSignal, dialled: boolean, expected?: string): Promise<Greeting> {
    return greet(socket, {
      signal,
      dialled,
      admit: (peerId) => this.#admit(peerId, expected),
      hello: () => this.#hello(socket),
    })
  }

  #admit(peerId: string, expected: string | undefined): void {
    if (expected !== undefined && peerId !== expected)
      throw new EGpuError(
        EGpuErrorCode.PeerNotTrusted,
        `expected the key ${expected.slice(0, 16)}… there but met ${peerId.slice(0, 16)}…: another host uses its name or address`,
      )
    // A host with this host's own key is let in far enough to tell whether it is this host itself.
    if (peerId !== this.nodeId && !this.#options.isPaired(peerId))
      throw new EGpuError(
        EGpuErrorCode.PeerNotTrusted,
        `${peerId.slice(0, 16)}… is not paired with this host; run egpu mesh pair on both`,
      )
  }

  #hello(socket: TLSSocket): Hello {
    const { instance, hostTag, name, visitor, heartbeatPort, cableOf } = this.#options
    const interfaceName = interfaceOf(socket)
    const cable = interfaceName === undefined ? undefined : cableOf(interfaceName)
    return {
      versions: protocolVersions,
      instance,
      hostTag,
      name,
      visitor,
      heartbeatPort,
      end: endOf(cable, interfaceName),
    }
  }

  async #adopt(socket: TLSSocket, greeting: Greeting, dialled: boolean): Promise<PeerConnection> {
    const { peerId, hello, stream } = greeting
    const refuse = (code: EGpuErrorCode, message: string): never => {
      stream.finish({ t: 'bye', reason: code, message })
      throw new EGpuError(code, message)
    }
    if (this.#isClosed) refuse(EGpuErrorCode.Closed, 'the mesh was closed')
    if (peerId === this.nodeId) {
      if (hello.hostTag === this.#options.hostTag) refuse(EGpuErrorCode.PeerRefused, 'this is the same host')
      refuse(EGpuErrorCode.IdentityCopied, `another machine, ${hello.name}, uses the key of this host`)
    }
    if ([...this.#channels, ...this.#others].filter((other) => other.peerId === peerId).length >= mostPerPeer)
      refuse(EGpuErrorCode.PeerRefused, `more than ${mostPerPeer} connections at once`)
    const interfaceName = interfaceOf(socket)
    const cable = interfaceName === undefined ? undefined : this.#options.cableOf(interfaceName)
    const budget = this.#budgets.get(peerId) ?? new RequestBudget()
    this.#budgets.set(peerId, budget)
    const channel = new Channel(socket, greeting, {
      link: routeOf(socket, cable, hello.end, peerId),
      dialled,
      fallback: (type) => this.#handlers.get(type),
      budget,
    })
    // A visitor is no member of its host's mesh; it keeps its own connections as any host does.
    if (hello.visitor || this.#options.visitor) {
      if (!dialled) stream.send({ t: 'welcome' })
      this.#keep(hello.visitor ? this.#others : this.#channels, channel)
      if (!hello.visitor) for (const listener of this.#listeners) listener(channel)
      return channel
    }
    await this.#settleRivals(channel, refuse)
    if (!dialled) stream.send({ t: 'welcome' })
    const twin = this.connections(peerId).find(({ link }) => link.id === channel.link.id)
    if (twin !== undefined && this.#keepsFirst(twin, channel)) {
      this.#keep(this.#others, channel)
      channel.retire()
      return twin
    }
    this.#keep(this.#channels, channel)
    if (twin !== undefined) {
      this.#channels.delete(twin)
      twin.retire()
    }
    for (const listener of this.#listeners) listener(channel)
    return channel
  }

  #keep(where: Set<Channel>, channel: Channel): void {
    where.add(channel)
    void channel.closed.then(() => where.delete(channel))
    channel.start()
  }

  /**
   * Of two connections over one link both ends keep the same one: that dialled by the host with the higher id, or the
   * newer one when the same host dialled twice, since it would not have done so for nothing.
   */
  #keepsFirst(first: Channel, second: Channel): boolean {
    if (first.dialled === second.dialled) return false
    const dialledByHigher = this.nodeId > first.peerId
    return first.dialled === dialledByHigher
  }

  /** Two machines with one key cannot be told apart, so the one that was there first stays and the other is refused. */
  async #settleRivals(channel: Channel, refuse: (code: EGpuErrorCode, message: string) => never): Promise<void> {
    const alive: Channel[] = []
    const asked = new Set<Channel>()
    // Another newcomer may have been let in while the others were being asked.
    for (;;) {
      const rivals = this.connections(channel.peerId).filter(
        (other) => other.peerInstance !== channel.peerInstance && !asked.has(other),
      )
      if (rivals.length === 0) break
      for (const rival of rivals) asked.add(rival)
      await Promise.all(
        rivals.map((rival) =>
          rival.request('mesh.alive', undefined, { signal: AbortSignal.timeout(rivalAnswerMs) }).then(
            () => alive.push(rival),
            () => rival.close('silent', 'the peer came back as a new process'),
          ),
        ),
      )
    }
    if (alive.some(({ hello }) => hello.hostTag !== channel.hello.hostTag))
      refuse(
        EGpuErrorCode.IdentityCopied,
        `two machines, ${alive[0]?.hello.name} and ${channel.hello.name}, use the key ${channel.peerId.slice(0, 16)}…; ` +
          'the first stays connected',
      )
    if (alive.length > 0)
      refuse(EGpuErrorCode.PeerRefused, `another process of ${channel.hello.name} is in the mesh with the same key`)
  }
}

/** A TLS connection for a purpose; rejects with what the operating system said, or `signal.reason`. */
export function dialSecure(
  identity: MeshIdentity,
  host: string,
  port: number,
  purpose: Purpose,
  signal: AbortSignal,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const options = { ...tlsOptions(identity), ALPNProtocols: [purpose], host, port }
    const socket = connect(options)
    const fail = (error: unknown): void => {
      signal.removeEventListener('abort', abort)
      socket.on('error', () => {})
      socket.destroy()
      reject(error)
    }
    const abort = (): void => fail(signal.reason)
    if (signal.aborted) {
      abort()
      return
    }
    signal.addEventListener('abort', abort, { once: true })
    socket.once('error', fail)
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', abort)
      socket.off('error', fail)
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

function keyOf(socket: TLSSocket): string | undefined {
  try {
    return peerOf(socket)
  } catch {
    return undefined
  }
}
