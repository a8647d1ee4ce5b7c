import type { Socket } from 'node:net'
import type { ChunkSource } from './source.ts'
import { AnswerKind, decodeRequest, dialectSpoken, head, helloBytes, magicBytes, withReason } from './wire.ts'
import type { ChunkRequest, Dialect } from './wire.ts'

export interface SendingOptions {
  readonly idleMs: number
  /** How much is handed to the socket in one go. */
  readonly sliceBytes: number
  /** What a token stands for; `undefined` when it is unknown or was used. */
  redeem(token: string): Stock | undefined
}

export interface Stock {
  readonly source: ChunkSource
  readonly sent: { chunks: number; bytes: number }
}

/** Chunks that are read while one is sent: side by side, since one reader alone is slower than a fast connection. */
const readAhead = 2

/** Requests that a receiver may have open; it is not read from while there are as many. */
const mostRequests = 64

type Answer = { readonly bytes: Uint8Array; readonly buffer: Buffer } | { readonly reason: string }

/** One receiver's connection, from its hello to its end. */
export class Sending {
  readonly closed: Promise<void>
  readonly #socket: Socket
  readonly #options: SendingOptions
  readonly #wanted: ChunkRequest[] = []
  /** Used again: to touch memory for the first time costs more than to send it. */
  readonly #free: Buffer[] = []
  #input: Buffer = Buffer.alloc(0)
  #dialect: Dialect | undefined
  #stock: Stock | undefined
  #isServing = false

  constructor(socket: Socket, options: SendingOptions) {
    this.#socket = socket
    this.#options = options
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
    socket.on('data', (bytes: Buffer) => this.#take(bytes))
  }

  async close(): Promise<void> {
    this.#socket.destroy()
    await this.closed
  }

  #take(bytes: Buffer): void {
    // Never long: what is read at once, and reading stops while too much is wanted.
    this.#input = this.#input.byteLength === 0 ? bytes : Buffer.concat([this.#input, bytes])
    const dialect = (this.#dialect ??= this.#welcome())
    if (dialect === undefined) return
    while (this.#input.byteLength >= dialect.requestBytes) {
      this.#wanted.push(decodeRequest(dialect, this.#input))
      this.#input = this.#input.subarray(dialect.requestBytes)
    }
    if (this.#wanted.length >= mostRequests) this.#socket.pause()
    if (this.#isServing) return
    this.#isServing = true
    this.#serve().catch(() => this.#socket.destroy())
  }

  /** How a receiver speaks whose hello is here and good. */
  #welcome(): Dialect | undefined {
    if (this.#input.byteLength < helloBytes) return undefined
    const dialect = dialectSpoken(this.#input)
    if (dialect === undefined) {
      this.#refuse('this is the bulk port of a mesh, and that was no hello of a protocol version known here')
      return undefined
    }
    this.#stock = this.#options.redeem(this.#input.toString('hex', magicBytes, helloBytes))
    if (this.#stock === undefined) {
      this.#refuse('the token is unknown or was used already: each is good for one connection')
      return undefined
    }
    this.#input = this.#input.subarray(helloBytes)
    this.#socket.setTimeout(this.#options.idleMs, () => this.#socket.destroy())
    this.#socket.write(head(AnswerKind.Welcome, 0))
    return dialect
  }

  #refuse(reason: string): void {
    this.#socket.removeAllListeners('data')
    this.#socket.resume()
    this.#socket.end(withReason(AnswerKind.Refused, reason))
    // Whoever keeps its end open is not waited for.
    setTimeout(() => this.#socket.destroy(), refusalMs).unref()
  }

  async #serve(): Promise<void> {
    const reading: Promise<Answer>[] = []
    for (;;) {
      while (reading.length <= readAhead && this.#wanted.length > 0) {
        reading.push(this.#read(this.#wanted.shift() as ChunkRequest))
      }
      if (this.#wanted.length < mostRequests / 2) this.#socket.resume()
      const next = reading.shift()
      if (next === undefined) break
      const answer = await next
      await this.#send(answer)
      if ('buffer' in answer) this.#free.push(answer.buffer)
    }
    this.#isServing = false
  }

  async #read({ id, from }: ChunkRequest): Promise<Answer> {
    const { source } = this.#stock as Stock
    const byteLength = source.lengthOf(id)
    if (byteLength === undefined) return { reason: `chunk ${id} is no part of this offer` }
    if (from >= byteLength) return { reason: `chunk ${id} has ${byteLength} bytes, none from byte ${from} on` }
    const known = this.#free.pop()
    const buffer = known !== undefined && known.byteLength >= byteLength ? known : Buffer.allocUnsafeSlow(byteLength)
    try {
      await source.read(id, buffer.subarray(0, byteLength))
      return { bytes: buffer.subarray(from, byteLength), buffer }
    } catch (error) {
      return { reason: `chunk ${id} cannot be read: ${error instanceof Error ? error.message : String(error)}` }
    }
  }

  async #send(answer: Answer): Promise<void> {
    if ('reason' in answer) {
      await this.#write(withReason(AnswerKind.NoChunk, answer.reason))
      return
    }
    const { bytes } = answer
    const { sent } = this.#stock as Stock
    const deadline = setTimeout(() => this.#socket.destroy(), this.#options.idleMs)
    try {
      sent.chunks += 1
      this.#socket.write(head(AnswerKind.Chunk, bytes.byteLength))
      const step = Math.min(this.#options.sliceBytes, bytes.byteLength)
      for (let at = 0; at < bytes.byteLength; at += step) {
        const slice = bytes.subarray(at, at + step)
        await this.#write(slice)
        sent.bytes += slice.byteLength
      }
    } finally {
      clearTimeout(deadline)
    }
  }

  /** Resolves once the kernel has taken the bytes, so that they may change. */
  #write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(new Error('the connection is over'))
        return
      }
      this.#socket.write(bytes, (error) => (error ? reject(error) : resolve()))
    })
  }
}

const refusalMs = 1_000
