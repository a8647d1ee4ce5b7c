import { randomBytes, X509Certificate } from 'node:crypto'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import type { SecureContext } from 'node:tls'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { temporaryIdentity } from '../identity/identity.ts'
import { Sending } from './sending.ts'
import type { ChunkSource } from './source.ts'
import { bulkVersion, tokenBytes } from './wire.ts'

export interface BulkServerOptions {
  /** Address to listen on. Default `::`, all of them. */
  readonly host?: string | undefined
  /** Default 0: any free port. */
  readonly port?: number | undefined
  /**
   * TLS 1.3 under a certificate of this server alone, whose fingerprint is part of `address`: receivers take no other.
   * Default true. `false` sends in the clear, for cables between two machines that nobody else can reach; what arrives is
   * held against its SHA-256 all the same.
   */
  readonly encrypted?: boolean | undefined
  /** How long a stranger may take to show a token. Default 5,000. */
  readonly helloMs?: number | undefined
  /** How long a receiver may take for one chunk, and between two requests. Default 60,000. */
  readonly idleMs?: number | undefined
}

/** How to get at what a server offers; goes to the receiver over the authenticated control channel. */
export interface BulkAddress {
  readonly port: number
  /** SHA-256 fingerprint of the certificate, 64 hex digits; `undefined` when the port is not encrypted. */
  readonly certificate: string | undefined
  /** Highest version of the bulk protocol that the server speaks. Default 1: no chunk can be asked for in part. */
  readonly version?: number | undefined
}

/** Something a server gives out to whoever has a ticket for it. Disposing it ends the transfers under way. */
export interface BulkOffer extends AsyncDisposable {
  /**
   * A token good for one connection, for as long as the offer stands and until 64 later ones were asked for; 64 hex digits.
   * Give each to one authenticated peer. Rejects nothing; `EGPU_CLOSED` is thrown once the offer is withdrawn.
   */
  ticket(): string
  /** Chunks and bytes that went out so far, counting those a receiver did not get whole. */
  readonly sent: { readonly chunks: number; readonly bytes: number }
}

/** Connections that have not shown a token yet; when there are more, the oldest goes. */
const mostStrangers = 64

/** Tokens of one offer that nobody has shown yet, likewise: a receiver asks for one when it dials. */
const mostTickets = 64

/**
 * Gives out chunks to receivers that dial in and show a one-time token. It never dials, writes nothing, and does nothing
 * for a stranger but wait a few seconds for a token.
 */
export class BulkServer implements AsyncDisposable {
  readonly address: BulkAddress
  readonly #server: Server
  #context: SecureContext | undefined
  readonly #strangers = new Set<Socket>()
  readonly #sockets = new Set<Socket>()
  readonly #offerings = new Set<Offering>()
  readonly #tickets = new Map<string, Offering>()
  readonly #helloMs: number
  readonly #idleMs: number
  #closing: Promise<void> | undefined

  private constructor(server: Server, { encrypted = true, helloMs = 5_000, idleMs = 60_000 }: BulkServerOptions) {
    this.#server = server
    this.#helloMs = helloMs
    this.#idleMs = idleMs
    const identity = encrypted ? temporaryIdentity() : undefined
    if (identity !== undefined) {
      const { privateKeyPem: key, certificatePem: cert } = identity
      this.#context = createSecureContext({ key, cert, minVersion: 'TLSv1.3' })
    }
    this.address = {
      port: (server.address() as AddressInfo).port,
      certificate: identity === undefined ? undefined : certificateFingerprint(identity.certificatePem),
      version: bulkVersion,
    }
    server.on('connection', (socket) => this.#receive(socket))
  }

  /** Resolves once it listens; rejects with the system's error when it cannot. */
  static async listen(options: BulkServerOptions = {}): Promise<BulkServer> {
    const server = createServer({ noDelay: true })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: options.host ?? '::', port: options.port ?? 0 }, () => resolve())
    })
    return new BulkServer(server, options)
  }

  /** Offers what `source` has; the source is disposed with the offer. */
  offer(source: ChunkSource): BulkOffer {
    if (this.#closing !== undefined) throw new EGpuError(EGpuErrorCode.Closed, 'the bulk server was closed')
    const offering: Offering = {
      source,
      sent: { chunks: 0, bytes: 0 },
      tickets: new Set(),
      connections: new Set(),
      isOver: false,
    }
    this.#offerings.add(offering)
    return {
      sent: offering.sent,
      ticket: () => {
        if (offering.isOver) throw new EGpuError(EGpuErrorCode.Closed, 'this offer was withdrawn')
        const token = randomBytes(tokenBytes).toString('hex')
        this.#tickets.set(token, offering)
        offering.tickets.add(token)
        const [oldest = ''] = offering.tickets
        if (offering.tickets.size > mostTickets) this.#forget(oldest, offering)
        return token
      },
      [Symbol.asyncDispose]: () => this.#withdraw(offering),
    }
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#sockets) socket.destroy()
    for (const offering of this.#offerings) await this.#withdraw(offering)
    await closed
  }

  async #withdraw(offering: Offering): Promise<void> {
    if (offering.isOver) return
    offering.isOver = true
    this.#offerings.delete(offering)
    for (const token of offering.tickets) this.#forget(token, offering)
    await Promise.all([...offering.connections].map((sending) => sending.close()))
    await offering.source[Symbol.asyncDispose]()
  }

  #forget(token: string, offering: Offering): void {
    this.#tickets.delete(token)
    offering.tickets.delete(token)
  }

  #receive(raw: Socket): void {
    this.#sockets.add(raw)
    this.#strangers.add(raw)
    const [oldest] = this.#strangers
    if (this.#strangers.size > mostStrangers) oldest?.destroy()
    const socket =
      this.#context === undefined ? raw : new TLSSocket(raw, { isServer: true, secureContext: this.#context })
    const timer = setTimeout(() => raw.destroy(), this.#helloMs)
    const introduced = (): void => {
      clearTimeout(timer)
      this.#strangers.delete(raw)
    }
    raw.once('close', () => {
      introduced()
      this.#sockets.delete(raw)
      socket.destroy()
    })
    raw.on('error', () => raw.destroy())
    socket.on('error', () => raw.destroy())
    const sending = new Sending(socket, {
      idleMs: this.#idleMs,
      sliceBytes: this.#context === undefined ? Infinity : tlsSliceBytes,
      redeem: (token) => {
        introduced()
        const offering = this.#tickets.get(token)
        // Good for one connection, whatever becomes of it.
        if (offering !== undefined) this.#forget(token, offering)
        offering?.connections.add(sending)
        void sending.closed.then(() => offering?.connections.delete(sending))
        return offering
      },
    })
  }
}

/** TLS in Node copies and encrypts each write as a whole: in the cache, twice as fast as in one go of 4 MiB. */
const tlsSliceBytes = 2 ** 16

interface Offering {
  readonly source: ChunkSource
  readonly sent: { chunks: number; bytes: number }
  readonly tickets: Set<string>
  readonly connections: Set<Sending>
  isOver: boolean
}

function certificateFingerprint(pem: string): string {
  return new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()
}
