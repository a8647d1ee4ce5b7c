import type { Socket } from 'node:net'
import { createServer, type TLSSocket } from 'node:tls'
import type { MeshIdentity } from '../identity/identity.ts'
import { Purpose, tlsOptions } from './secure-socket.ts'
import { whoMakesRoom, type Stranger } from './strangers.ts'

/** A handshake takes a few milliseconds; whoever needs longer is a slow-loris. */
const handshakeMs = 3_000
export interface ControlServer extends AsyncDisposable {
  readonly port: number
  close(): Promise<void>
}

export interface ControlServerOptions {
  readonly identity: MeshIdentity
  /** 0 takes a free one. */
  readonly port: number
  readonly host?: string | undefined
  /** Gets every connection whose TLS handshake went through; its promise ends the time in which it counts as a stranger. */
  readonly accept: (socket: TLSSocket, purpose: Purpose) => Promise<void>
}

interface Arrival extends Stranger {
  readonly socket: Socket
}

/**
 * Listens for peers on all interfaces. A flood of strangers meets a limit and leaves those who are known alone; who says hello at
 * once gets in all the same, since those make room who have been silent for longest.
 */
export async function controlServer({
  identity,
  port,
  host = '::',
  accept,
}: ControlServerOptions): Promise<ControlServer> {
  const server = createServer({
    ...tlsOptions(identity),
    ALPNProtocols: [Purpose.Mesh, Purpose.Pair],
    handshakeTimeout: handshakeMs,
  })
  const strangers = new Set<Arrival>()
  const sockets = new Set<Socket>()
  /** By remote port, since TLS wraps the raw socket in one of its own. */
  const arrived = new Map<string, Arrival>()
  server.on('connection', (socket: Socket) => {
    const [from, to] = [socket.remoteAddress ?? '', socket.localAddress ?? '']
    const stranger = { socket, from, to, isSecured: false }
    socket.on('error', () => {})
    const key = keyOf(socket)
    sockets.add(socket)
    arrived.set(key, stranger)
    socket.once('close', () => {
      strangers.delete(stranger)
      // The port may have been taken by another connection meanwhile.
      if (arrived.get(key) === stranger) arrived.delete(key)
      sockets.delete(socket)
    })
    strangers.add(stranger)
    const tooMany = whoMakesRoom([...strangers])
    if (tooMany === undefined) return
    strangers.delete(tooMany)
    tooMany.socket.destroy()
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    socket.on('error', () => {})
    const stranger = arrived.get(keyOf(socket))
    if (stranger !== undefined) stranger.isSecured = true
    const purpose = Object.values(Purpose).find((name) => name === socket.alpnProtocol)
    if (purpose === undefined) {
      socket.destroy()
      return
    }
    void accept(socket, purpose).finally(() => stranger !== undefined && strangers.delete(stranger))
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  server.on('error', () => {})
  const address = server.address() as { port: number }
  let closing: Promise<void> | undefined
  const close = (): Promise<void> =>
    (closing ??= new Promise((resolve) => {
      server.close(() => resolve())
      for (const socket of sockets) socket.destroy()
    }))
  return { port: address.port, close, [Symbol.asyncDispose]: close }
}

function keyOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`
}
