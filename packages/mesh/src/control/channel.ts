import type { TLSSocket } from 'node:tls'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import { asCount, asShape, asText, type Shape } from '../shape.ts'
import { plainText } from '../text.ts'
import type { Greeting } from './greet.ts'
import type { Hello } from './hello.ts'
import type { MessageStream } from './message-stream.ts'
import type { LinkRoute, PeerConnection, PeerConnectionEnd, RequestHandler } from './peer-connection.ts'
import type { RequestBudget } from './request-budget.ts'
import { exportedKey } from './secure-socket.ts'

/** Requests of one peer that are worked on at once; more are refused. */
const mostRequests = 256
/** A peer that asks but does not read its answers is cut off at this many bytes. */
const mostUnread = 32 * 1024 * 1024
/** How long a connection that was replaced waits for its last answers. */
const retirementMs = 5_000

/** How long the other side of a broken link is left to find out by itself. */
const verdictMs = 500

type EndReason = PeerConnectionEnd['reason']

export interface ChannelOptions {
  readonly link: LinkRoute
  /** Whether this host dialled. */
  readonly dialled: boolean
  /** Handlers for requests that the connection itself has none for. */
  readonly fallback: (type: string) => RequestHandler | undefined
  /** Of the peer. */
  readonly budget: RequestBudget
}

interface Asked {
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** One connection to one peer: requests both ways, any number at once, until either side ends it. */
export class Channel implements PeerConnection {
  readonly peerId: string
  readonly peerInstance: string
  readonly hello: Hello
  readonly link: LinkRoute
  readonly dialled: boolean
  readonly closed: Promise<PeerConnectionEnd>
  /** What is known of the round trip; the mesh keeps it up to date. */
  latencyUs: number | undefined
  readonly #socket: TLSSocket
  readonly #stream: MessageStream
  readonly #fallback: ChannelOptions['fallback']
  readonly #budget: RequestBudget
  readonly #handlers = new Map<string, RequestHandler>()
  readonly #asked = new Map<number, Asked>()
  readonly #working = new Map<number, AbortController>()
  #resolveClosed: (end: PeerConnectionEnd) => void = () => {}
  #lastId = 0
  #end: PeerConnectionEnd | undefined
  #onIdle: (() => void) | undefined

  constructor(socket: TLSSocket, { peerId, hello, stream }: Greeting, options: ChannelOptions) {
    const { link, dialled, fallback, budget } = options
    this.#socket = socket
    this.#stream = stream
    this.peerId = peerId
    this.peerInstance = hello.instance
    this.hello = hello
    this.link = link
    this.dialled = dialled
    this.#fallback = fallback
    this.#budget = budget
    this.closed = new Promise((resolve) => (this.#resolveClosed = resolve))
  }

  /** Begins to work on what the peer asks; before, it waits. */
  start(): void {
    this.#socket.setNoDelay(true)
    this.#stream.listen(
      (message, byteLength) => this.#receive(message, byteLength),
      (error) =>
        this.#finish(EGpuError.is(error, EGpuErrorCode.MalformedData) ? 'misbehaved' : 'closed-by-peer', error.message),
    )
  }

  get isOpen(): boolean {
    return this.#end === undefined
  }

  async request(type: string, body: unknown, { signal }: AbortOptions = {}): Promise<unknown> {
    signal?.throwIfAborted()
    if (this.#end !== undefined) throw this.#lost()
    const id = (this.#lastId += 1)
    return new Promise<unknown>((resolve, reject) => {
      const settle = (): void => {
        this.#asked.delete(id)
        signal?.removeEventListener('abort', abort)
        this.#checkIdle()
      }
      const abort = (): void => {
        settle()
        this.#stream.send({ t: 'cancel', id })
        reject(signal?.reason)
      }
      this.#asked.set(id, {
        resolve: (answer) => {
          settle()
          resolve(answer)
        },
        reject: (error) => {
          settle()
          reject(error)
        },
      })
      signal?.addEventListener('abort', abort, { once: true })
      try {
        this.#stream.send({ t: 'request', id, type, body })
      } catch (error) {
        this.#asked.get(id)?.reject(error)
      }
    })
  }

  handle(type: string, handler: RequestHandler): () => void {
    if (this.#handlers.has(type)) throw new TypeError(`requests of type ${type} are handled already`)
    this.#handlers.set(type, handler)
    return () => {
      if (this.#handlers.get(type) === handler) this.#handlers.delete(type)
    }
  }

  exportKey(label: string): Buffer {
    return exportedKey(this.#socket, label)
  }

  /** Ends it now. What was asked and not answered rejects with `EGPU_PEER_LOST`. */
  close(reason: EndReason = 'closed-here', message = 'this host closed the connection'): void {
    if (this.#end !== undefined) return
    if (reason === 'link-down') this.#stream.destroy()
    // Closing reaches the other side where only one direction is broken; it shall have time to see what this side saw.
    else if (reason === 'silent' || reason === 'one-way') setTimeout(() => this.#stream.destroy(), verdictMs).unref()
    else this.#stream.finish({ t: 'bye', reason, message })
    this.#finish(reason, message)
  }

  /** Ends it once nothing is under way any more, at the latest after some seconds: another connection took over. */
  retire(): void {
    const end = (): void => this.close('replaced', 'another connection over the same link took over')
    const timer = setTimeout(end, retirementMs)
    timer.unref()
    this.#onIdle = () => {
      clearTimeout(timer)
      end()
    }
    // A request of the peer may be on its way; it sees the same two connections and asks on the other from now on.
    setTimeout(() => this.#checkIdle(), 250).unref()
  }

  #checkIdle(): void {
    if (this.#onIdle !== undefined && this.#asked.size === 0 && this.#working.size === 0) this.#onIdle()
  }

  #receive(message: unknown, byteLength: number): void {
    if (this.#end !== undefined) return
    const shape = asShape(message)
    const id = asCount(shape?.['id'])
    const kind = shape?.['t']
    if (shape === undefined || (id === undefined && kind !== 'bye')) {
      this.close('misbehaved', 'the peer sent a message without a number')
      return
    }
    if (kind === 'request') void this.#work(id as number, shape, byteLength)
    else if (kind === 'cancel')
      this.#working.get(id as number)?.abort(new Error('the peer does not want the answer any more'))
    else if (kind === 'answer') this.#asked.get(id as number)?.resolve(shape['body'])
    else if (kind === 'failure') this.#asked.get(id as number)?.reject(failureOf(shape))
    else if (kind === 'bye') {
      const text = plainText(asText(shape['message'], 4_096) ?? '')
      this.#stream.destroy()
      this.#finish(
        shape['reason'] === 'replaced' ? 'replaced' : 'closed-by-peer',
        text || 'the peer closed the connection',
      )
    }
    // Other kinds are of a later version, which knows that this one does not answer them.
  }

  async #work(id: number, shape: Shape, byteLength: number): Promise<void> {
    const type = asText(shape['type'])
    if (type === undefined || this.#working.has(id)) {
      this.close('misbehaved', 'the peer sent a request without a type, or used a number twice')
      return
    }
    const stop = new AbortController()
    this.#working.set(id, stop)
    const isWithin = this.#budget.take(byteLength)
    try {
      if (this.#working.size > mostRequests)
        throw new EGpuError(EGpuErrorCode.PeerRefused, `more than ${mostRequests} requests at once`)
      if (!isWithin) throw new EGpuError(EGpuErrorCode.PeerRefused, 'the requests under way are too large together')
      const handler = this.#handlers.get(type) ?? this.#fallback(type)
      if (handler === undefined)
        throw new EGpuError(EGpuErrorCode.PeerRefused, `nothing here answers requests of type ${plainText(type)}`)
      const body = await handler(shape['body'], { connection: this, signal: stop.signal })
      this.#reply({ t: 'answer', id, body })
    } catch (error) {
      const code = EGpuError.is(error) ? error.code : EGpuErrorCode.PeerRefused
      const text = error instanceof Error ? error.message : String(error)
      this.#reply({ t: 'failure', id, code, message: text.slice(0, 4_096) })
    } finally {
      this.#working.delete(id)
      if (isWithin) this.#budget.giveBack(byteLength)
      this.#checkIdle()
    }
  }

  #reply(message: object): void {
    if (this.#end !== undefined) return
    if (this.#socket.writableLength > mostUnread) {
      this.close('misbehaved', 'the peer asks but does not read the answers')
      return
    }
    this.#stream.send(message)
  }

  #finish(reason: EndReason, message: string): void {
    if (this.#end !== undefined) return
    this.#end = { reason, message }
    const lost = this.#lost()
    for (const asked of this.#asked.values()) asked.reject(lost)
    for (const stop of this.#working.values()) stop.abort(lost)
    this.#resolveClosed(this.#end)
  }

  #lost(): EGpuError {
    return new EGpuError(
      EGpuErrorCode.PeerLost,
      `the connection to ${this.hello.name} by ${this.link.address} ended: ${this.#end?.message}`,
    )
  }
}

const codes: ReadonlySet<unknown> = new Set(Object.values(EGpuErrorCode))

function failureOf(shape: Shape): EGpuError {
  const code = codes.has(shape['code']) ? (shape['code'] as EGpuErrorCode) : EGpuErrorCode.PeerRefused
  return new EGpuError(code, plainTextLong(asText(shape['message'], 4_096) ?? 'no reason given'))
}

/** Keeps line breaks: a list of reasons stays a list. */
function plainTextLong(text: string): string {
  return text.split('\n').map(plainText).join('\n')
}
