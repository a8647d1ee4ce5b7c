import { randomBytes } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import { plainAddress } from '../control/link-route.ts'
import { whoMakesRoom, type Stranger } from '../control/strangers.ts'

/** What a probe asks of the other end. */
export const ProbeMode = { Echo: 1, Send: 2, Take: 3 } as const
export type ProbeMode = (typeof ProbeMode)[keyof typeof ProbeMode]

export const tokenBytes = 32
/** Token, mode, number of bytes. */
export const headerBytes: number = tokenBytes + 1 + 6
/** Most a peer may ask for in one throughput probe. */
export const mostProbeBytes: number = 1024 ** 3

const headerDeadlineMs = 1_000
const tokenLifeMs = 5_000
const probeLifeMs = 30_000
/** Probes of one peer over one link that were granted or are under way; it needs two. */
const mostPerAddress = 8

/**
 * The other end of latency and throughput probes: plain TCP, since TLS would be measured too. Serves only who shows a
 * token that was handed out over an authenticated connection, once, and within seconds.
 */
export class ProbeServer implements AsyncDisposable {
  readonly #tokens = new Map<string, { readonly address: string; readonly until: number }>()
  readonly #running = new Set<{ readonly address: string }>()
  readonly #strangers = new Set<Stranger & { readonly socket: Socket }>()
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer({ noDelay: true }, (socket) => this.#accept(socket))

  /** `undefined` before it listens. */
  get port(): number | undefined {
    return (this.#server.address() as { port: number } | null)?.port
  }

  async listen(): Promise<number> {
    this.#server.on('error', () => {})
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ port: 0, host: '::' }, resolve)
    })
    return (this.#server.address() as { port: number }).port
  }

  /** A token for one probe from `address`; `undefined` while it has too many. */
  grant(address: string): string | undefined {
    const now = performance.now()
    for (const [token, { until }] of this.#tokens) if (until < now) this.#tokens.delete(token)
    const from = plainAddress(address)
    const probes = [...this.#tokens.values(), ...this.#running].filter((probe) => probe.address === from)
    if (probes.length >= mostPerAddress) return undefined
    const token = randomBytes(tokenBytes).toString('hex')
    this.#tokens.set(token, { address: from, until: now + tokenLifeMs })
    return token
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #accept(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    const stranger = { socket, from: socket.remoteAddress ?? '', to: socket.localAddress ?? '' }
    this.#sockets.add(socket)
    this.#strangers.add(stranger)
    const tooMany = whoMakesRoom([...this.#strangers])
    tooMany?.socket.destroy()
    if (tooMany !== undefined) this.#strangers.delete(tooMany)
    const limit = setTimeout(() => socket.destroy(), headerDeadlineMs)
    socket.once('close', () => {
      clearTimeout(limit)
      this.#strangers.delete(stranger)
      this.#sockets.delete(socket)
    })
    let header = Buffer.alloc(0)
    const read = (chunk: Buffer): void => {
      header = Buffer.concat([header, chunk])
      if (header.length < headerBytes) return
      socket.off('data', read)
      clearTimeout(limit)
      this.#strangers.delete(stranger)
      const life = setTimeout(() => socket.destroy(), probeLifeMs)
      socket.once('close', () => clearTimeout(life))
      this.#serve(socket, header)
    }
    socket.on('data', read)
  }

  #serve(socket: Socket, header: Buffer): void {
    const token = header.toString('hex', 0, tokenBytes)
    const granted = this.#tokens.get(token)
    this.#tokens.delete(token)
    const mode = header.readUInt8(tokenBytes)
    const count = header.readUIntBE(tokenBytes + 1, 6)
    const isGranted =
      granted !== undefined &&
      granted.until >= performance.now() &&
      granted.address === plainAddress(socket.remoteAddress ?? '')
    if (!isGranted || count > mostProbeBytes) {
      socket.destroy()
      return
    }
    this.#running.add(granted)
    socket.once('close', () => this.#running.delete(granted))
    if (mode === ProbeMode.Echo) echo(socket, header.subarray(headerBytes))
    else if (mode === ProbeMode.Send) send(socket, count)
    else if (mode === ProbeMode.Take) take(socket, count - (header.length - headerBytes))
    else socket.destroy()
  }
}

/** What came in one piece with the header is the first message. */
function echo(socket: Socket, first: Buffer): void {
  if (first.length > 0) socket.write(first)
  // Reads no more while the other end does not.
  socket.pipe(socket)
}

function send(socket: Socket, count: number): void {
  const block = Buffer.alloc(256 * 1024, 0x55)
  let left = count
  const go = (): void => {
    while (left > 0) {
      const part = block.subarray(0, Math.min(left, block.length))
      left -= part.length
      if (!socket.write(part)) {
        socket.once('drain', go)
        return
      }
    }
    socket.end()
  }
  go()
}

/** Answers one byte when all has arrived, since only the receiving end knows. */
function take(socket: Socket, count: number): void {
  let left = count
  const answerOnceAll = (): void => {
    if (left <= 0) socket.end(Buffer.from([1]))
  }
  // All of a few bytes may have come with the header.
  answerOnceAll()
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length
    answerOnceAll()
  })
}
