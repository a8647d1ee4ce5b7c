import type { Socket } from 'node:net'
import { createServer, type TLSSocket } from 'node:tls'
import type { MeshIdentity } from '../identity/identity.ts'
import { Purpose, tlsOptions } from './secure-socket.ts'

/** A handshake takes a few milliseconds; whoever needs longer is a slow-loris. */
const handshakeMs = 3_000
/** Connections that have not said hello yet: from everybody, and from one address. */
const mostStrangers = { inAll: 128, perAddress: 16 } as const

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

/** Listens for peers on all interfaces. A flood of strangers meets a limit and leaves those who are known alone. */
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
  const strangers = new Map<string, number>()
  const sockets = new Set<Socket>()
  let all = 0
  const arrive = (address: string): boolean => {
    const count = strangers.get(address) ?? 0
    if (all >= mostStrangers.inAll || count >= mostStrangers.perAddress) return false
    all += 1
    strangers.set(address, count + 1)
    return true
  }
  const leave = (address: string): void => {
    all -= 1
    const count = (strangers.get(address) ?? 1) - 1
    if (count === 0) strangers.delete(address)
    else strangers.set(address, count)
  }
  /** By remote port, since TLS wraps the raw socket in one of its own. */
  const greeted = new Map<string, () => void>()
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    if (!arrive(address)) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    const key = keyOf(socket)
    let isStranger = true
    const known = (): void => {
      if (isStranger) leave(address)
      isStranger = false
    }
    greeted.set(key, known)
    socket.once('close', () => {
      known()
      greeted.delete(key)
      sockets.delete(socket)
    })
    socket.on('error', () => {})
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    socket.on('error', () => {})
    const known = greeted.get(keyOf(socket))
    const purpose = Object.values(Purpose).find((name) => name === socket.alpnProtocol)
    if (purpose === undefined) {
      socket.destroy()
      return
    }
    void accept(socket, purpose).finally(() => known?.())
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
