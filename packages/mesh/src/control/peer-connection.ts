import type { AbortOptions } from '@egpu/core'

/**
 * Which way a connection runs: out of which interface of this host, to which address. Stays the same object for the
 * life of the connection.
 */
export interface LinkRoute {
  /** Unique among the links of this host, and the same for every connection over the same cable and address. */
  readonly id: string
  /** `thunderbolt`: a cable between two hosts, known from the device tree. `network`: anything else. */
  readonly kind: 'thunderbolt' | 'network'
  /** Local interface; `undefined` when a network connection did not say which one it left by. */
  readonly interfaceName: string | undefined
  /** To dial, with its zone where it is link-local: `fe80::1%thunderbolt0`. Dialling it leaves by `interfaceName`. */
  readonly address: string
  /** Address of this host on the link, with its zone: to listen on, or to bind to. */
  readonly localAddress: string
}

/** What answers a request: gets the body as JSON gave it, unchecked. What it throws travels back as an error. */
export type RequestHandler = (body: unknown, context: RequestContext) => unknown

export interface RequestContext {
  readonly connection: PeerConnection
  /** Fires when the asker gave up or the connection ended. */
  readonly signal: AbortSignal
}

/**
 * An authenticated, encrypted connection to one paired peer over one link. Both sides proved that they hold the key
 * the other was paired with, so `peerId` can be relied on; bodies are what a paired but perhaps broken peer sent.
 */
export interface PeerConnection {
  /** Fingerprint of the peer's key: SHA-256 over its public key (SPKI), 64 hex digits. */
  readonly peerId: string
  /** This run of the peer's process: changes when it restarts. */
  readonly peerInstance: string
  readonly link: LinkRoute
  /**
   * Asks the peer and resolves to its answer, which is JSON (no bigints, no bytes), at most 1 MiB.
   * Rejects with `signal.reason`, with `EGPU_PEER_LOST` when the connection ends first, with `EGPU_PEER_REFUSED` when the
   * peer has no handler for it or its handler threw an ordinary error, and with the same code as the peer's when it threw an
   * `EGpuError`. Waits as long as `signal` lets it.
   */
  request(type: string, body: unknown, options?: AbortOptions): Promise<unknown>
  /**
   * Answers requests of `type` on this connection; goes before the handlers given to `PeerConnections`. Returns what
   * takes it away again.
   */
  handle(type: string, handler: RequestHandler): () => void
  /** Bytes that both ends of this very connection know and nobody else does (RFC 8446 exporter, 32 bytes per label). */
  exportKey(label: string): Buffer
  /** Resolves, never rejects, once nothing can be sent any more. */
  readonly closed: Promise<PeerConnectionEnd>
}

export interface PeerConnectionEnd {
  /** `link-down`: carrier or interface gone. `silent`, `one-way`: heartbeats. `replaced`: a duplicate was closed. */
  readonly reason: 'closed-here' | 'closed-by-peer' | 'link-down' | 'silent' | 'one-way' | 'replaced' | 'misbehaved'
  readonly message: string
}

/** All connections to paired peers: what the parts above the control plane are written against. */
export interface PeerConnections {
  /** Fingerprint of this host's own key. */
  readonly nodeId: string
  /** Open connections, cables before networks, then by latency. All peers' when `peerId` is left out. */
  connections(peerId?: string): readonly PeerConnection[]
  /** Called for every connection that opens from now on; returns what ends it. */
  onConnection(listener: (connection: PeerConnection) => void): () => void
  /** Answers requests of `type` from every paired peer, now and later. `TypeError` when the type is taken. */
  handle(type: string, handler: RequestHandler): () => void
  /** Over the best connection to the peer; `EGPU_PEER_LOST` when there is none. */
  request(peerId: string, type: string, body: unknown, options?: AbortOptions): Promise<unknown>
}
