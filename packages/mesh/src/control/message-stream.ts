import type { Duplex } from 'node:stream'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { encodeFrame, FrameReader, frameLimit } from './frame.ts'

/** How long a frame may take from its first byte to its last: a slow line needs far less, a slow-loris far more. */
const frameDeadlineMs = 30_000

/** Gets each message, and how many bytes it had. */
export type MessageListener = (message: unknown, byteLength: number) => void

/** Messages over a byte stream. Reads one at a time until somebody listens, so a stranger cannot fill the memory. */
export class MessageStream {
  readonly #socket: Duplex
  readonly #reader = new FrameReader(frameLimit.hello)
  readonly #waiting: { readonly message: unknown; readonly byteLength: number }[] = []
  #listener: MessageListener | undefined
  #wake: (() => void) | undefined
  #end: Error | undefined
  #onEnd: ((reason: Error) => void) | undefined
  #frameTimer: NodeJS.Timeout | undefined

  constructor(socket: Duplex) {
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.once('error', (error) => this.#finish(error))
    socket.once('close', () =>
      this.#finish(new EGpuError(EGpuErrorCode.PeerLost, 'the other side closed the connection')),
    )
  }

  /** The next message; rejects when the stream ends first. */
  async next(signal: AbortSignal): Promise<unknown> {
    const abort = (): void => this.#wake?.()
    signal.addEventListener('abort', abort, { once: true })
    try {
      for (;;) {
        signal.throwIfAborted()
        if (this.#waiting.length > 0) return this.#shift()?.message
        if (this.#end !== undefined) throw this.#end
        await new Promise<void>((resolve) => (this.#wake = resolve))
      }
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** From now on every message goes to `listener` as it comes, up to the larger limit of a known peer. */
  listen(listener: MessageListener, onEnd: (reason: Error) => void): void {
    this.#reader.limit = frameLimit.peer
    this.#onEnd = onEnd
    this.#listener = listener
    for (let next = this.#shift(); next !== undefined; next = this.#shift()) listener(next.message, next.byteLength)
    if (this.#end !== undefined) onEnd(this.#end)
  }

  /** Throws `EGPU_MALFORMED_DATA` for a message above the limit; what is sent after the end is dropped. */
  send(message: unknown): void {
    const frame = encodeFrame(message, this.#reader.limit)
    if (this.#socket.writable) this.#socket.write(frame)
  }

  /** Sends `message` as the last one and closes. */
  finish(message: unknown): void {
    if (this.#socket.writable) this.#socket.end(encodeFrame(message, this.#reader.limit))
    // Whoever does not close in turn is cut off.
    const cut = setTimeout(() => this.#socket.destroy(), 1_000)
    cut.unref()
    this.#socket.once('close', () => clearTimeout(cut))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #shift(): { readonly message: unknown; readonly byteLength: number } | undefined {
    const next = this.#waiting.shift()
    if (this.#waiting.length === 0) this.#socket.resume()
    return next
  }

  #read(chunk: Buffer): void {
    if (this.#end !== undefined) return
    try {
      for (const message of this.#reader.read(chunk)) {
        if (this.#listener === undefined) {
          this.#waiting.push({ message, byteLength: this.#reader.messageBytes })
          this.#socket.pause()
        } else this.#listener(message, this.#reader.messageBytes)
      }
      this.#watchFrame()
    } catch (error) {
      this.#finish(error as Error)
    }
    this.#wake?.()
  }

  #watchFrame(): void {
    if (!this.#reader.isWithin) {
      clearTimeout(this.#frameTimer)
      this.#frameTimer = undefined
    } else if (this.#frameTimer === undefined) {
      this.#frameTimer = setTimeout(() => {
        this.#finish(
          new EGpuError(EGpuErrorCode.MalformedData, `a frame took longer than ${frameDeadlineMs / 1_000} s`),
        )
      }, frameDeadlineMs)
      this.#frameTimer.unref()
    }
  }

  #finish(reason: Error): void {
    if (this.#end !== undefined) return
    this.#end = reason
    clearTimeout(this.#frameTimer)
    this.#socket.on('error', () => {})
    this.#socket.destroy()
    this.#wake?.()
    this.#onEnd?.(reason)
  }
}
