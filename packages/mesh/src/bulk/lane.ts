import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { plainText } from '../text.ts'
import type { ChunkRef } from './chunk.ts'
import { malformed } from './chunk.ts'
import type { BulkAddress } from './server.ts'
import { AnswerKind, dialectOf, encodeRequest, headBytes, mostReasonBytes } from './wire.ts'
import type { Dialect } from './wire.ts'

/** A way to the sender. */
export interface BulkLink {
  /** For messages and reports. */
  readonly name: string
  /** To dial, with its zone where it is link-local: `fe80::1%thunderbolt0`. */
  readonly host: string
  /** Address to bind to, where the destination alone does not decide the way. */
  readonly localAddress?: string | undefined
}

export interface LaneOptions {
  readonly link: BulkLink
  readonly address: BulkAddress
  readonly token: string
  /** Without a byte for so long while chunks are due, the lane is given up. */
  readonly stallMs: number
  readonly signal: AbortSignal
  /** A chunk is in its buffer, not checked yet; so many bytes of it came over this lane. */
  received(task: ChunkTask, byteLength: number): void
}

/** A chunk on its way into a buffer. */
export interface ChunkTask {
  readonly chunk: ChunkRef
  readonly buffer: Buffer
  /** Bytes of the beginning that are in the buffer; the rest is asked for. Kept up while they come in. */
  filled: number
}

interface Asked {
  readonly task: ChunkTask
  /** From which byte on. */
  readonly from: number
}

/**
 * One connection to a sender. Bytes go from the kernel straight into each chunk's own buffer (`onread`): nothing is
 * copied on the way, and nothing a sender says decides how much is read.
 */
export class Lane {
  readonly link: BulkLink
  /** Resolves, never rejects, with why it ended. */
  readonly ended: Promise<unknown>
  readonly #options: LaneOptions
  readonly #dialect: Dialect
  readonly #due: Asked[] = []
  readonly #socket: Socket
  readonly #head: Buffer = Buffer.alloc(headBytes)
  readonly #welcomed: Promise<void>
  #welcome: () => void = () => {}
  /** What the next bytes fill, and what is to be done when they have. */
  #target: Uint8Array = this.#head
  #filled = 0
  #whenFull: () => void = () => this.#onHead()
  /** What the next bytes are part of. */
  #coming: ChunkTask | undefined
  #isWelcome = false
  #failure: unknown

  private constructor(options: LaneOptions) {
    this.link = options.link
    this.#options = options
    this.#dialect = dialectOf(options.address.version ?? 1)
    this.#welcomed = new Promise((resolve) => {
      this.#welcome = resolve
    })
    this.#socket = this.#dial()
    this.ended = new Promise((resolve) => {
      const abort = (): void => this.fail(options.signal.reason)
      options.signal.addEventListener('abort', abort, { once: true })
      if (options.signal.aborted) abort()
      this.#socket.once('close', () => {
        options.signal.removeEventListener('abort', abort)
        resolve(this.#failure ?? lost(this.link, 'the sender ended the connection'))
      })
    })
  }

  /** Resolves once the sender has taken the token; rejects with why it did not. */
  static async open(options: LaneOptions): Promise<Lane> {
    const lane = new Lane(options)
    const ended = lane.ended.then((error) => {
      throw error
    })
    ended.catch(() => undefined)
    await Promise.race([lane.#welcomed, ended])
    return lane
  }

  /** Chunks that were asked for and are not here. */
  get due(): number {
    return this.#due.length
  }

  /** What was asked for and did not come whole, of a lane that has ended, and how much of it came. */
  takeDue(): { readonly task: ChunkTask; readonly byteLength: number }[] {
    return this.#due.splice(0).map(({ task, from }) => ({ task, byteLength: task.filled - from }))
  }

  /** Whether the rest of a chunk can be asked for; of an older sender only whole ones can. */
  get takesParts(): boolean {
    return this.#dialect.version >= 2
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  request(task: ChunkTask): void {
    if (this.#due.length === 0) this.#socket.setTimeout(this.#options.stallMs)
    this.#due.push({ task, from: task.filled })
    this.#socket.write(encodeRequest(this.#dialect, { id: task.chunk.id, from: task.filled }))
  }

  /** Ends it; what is due stays in `due`. */
  fail(error: unknown): void {
    this.#failure ??= error
    this.#expectNothing()
    this.#socket.destroy()
  }

  #dial(): Socket {
    const { link, address, token, stallMs } = this.#options
    const onread = { buffer: () => this.#rest(), callback: (byteLength: number) => this.#onRead(byteLength) }
    const hello = Buffer.concat([this.#dialect.magic, Buffer.from(token, 'hex')])
    const { host, localAddress } = link
    const bound = localAddress === undefined ? {} : { localAddress }
    const place = { host, port: address.port, noDelay: true, onread, ...bound }
    const { certificate } = address
    const socket =
      certificate === undefined
        ? connect(place, () => socket.write(hello))
        : connectTls({
            ...place,
            // Nobody but the holder of the certificate whose fingerprint came over the control channel will do.
            rejectUnauthorized: false,
            minVersion: 'TLSv1.3',
            ciphers: fastCiphers,
          }).once('secureConnect', () => {
            if (fingerprintOf(socket as TLSSocket) === certificate) socket.write(hello)
            else this.fail(impostor(link))
          })
    socket.setTimeout(stallMs)
    socket.on('timeout', () => {
      if (this.#isWelcome && this.#due.length === 0) return
      this.fail(new EGpuError(EGpuErrorCode.Timeout, `nothing came over ${link.name} for ${stallMs} ms`))
    })
    socket.on('error', (error) => this.fail(lost(link, error.message, error)))
    // What came last may be a refusal, and is read before this.
    socket.on('end', () => socket.destroy())
    return socket
  }

  #rest(): Uint8Array {
    return this.#target.subarray(this.#filled)
  }

  #onRead(byteLength: number): boolean {
    this.#filled += byteLength
    if (this.#coming !== undefined) this.#coming.filled += byteLength
    if (this.#filled < this.#target.byteLength) return true
    try {
      this.#whenFull()
    } catch (error) {
      this.fail(error)
    }
    return true
  }

  #expect(target: Uint8Array, whenFull: () => void): void {
    this.#target = target
    this.#filled = 0
    this.#whenFull = whenFull
    this.#coming = undefined
  }

  /** What is still on its way goes nowhere. Node's TLS never returns from handing bytes to a buffer of no length. */
  #expectNothing(): void {
    this.#expect(this.#head, () => this.#expectNothing())
  }

  #expectHead(): void {
    this.#expect(this.#head, () => this.#onHead())
  }

  #onHead(): void {
    const kind = this.#head.readUInt32BE(0)
    const byteLength = this.#head.readUInt32BE(4)
    if (kind === AnswerKind.Refused || kind === AnswerKind.NoChunk) {
      this.#onReason(kind, byteLength)
    } else if (!this.#isWelcome) {
      if (kind !== AnswerKind.Welcome || byteLength !== 0) throw malformed(`${this.link.name} speaks no bulk protocol`)
      this.#isWelcome = true
      this.#socket.setTimeout(0)
      this.#welcome()
      this.#expectHead()
    } else {
      this.#onChunk(kind, byteLength)
    }
  }

  #onChunk(kind: number, byteLength: number): void {
    const [asked] = this.#due
    if (kind !== AnswerKind.Chunk || asked === undefined) throw malformed(`an answer of kind ${kind} came unasked`)
    const { task, from } = asked
    const { chunk, buffer } = task
    const missing = chunk.byteLength - from
    if (byteLength !== missing) {
      throw malformed(`the sender has ${byteLength} bytes for chunk ${chunk.id}, of which ${missing} were asked for`)
    }
    this.#expect(buffer.subarray(from, chunk.byteLength), () => {
      this.#due.shift()
      if (this.#due.length === 0) this.#socket.setTimeout(0)
      this.#expectHead()
      this.#options.received(task, byteLength)
    })
    this.#coming = task
  }

  #onReason(kind: number, byteLength: number): void {
    if (byteLength < 1 || byteLength > mostReasonBytes) throw malformed(`a reason of ${byteLength} bytes is none`)
    const text = Buffer.alloc(byteLength)
    this.#expect(text, () => {
      const code = kind === AnswerKind.Refused ? EGpuErrorCode.PermissionDenied : EGpuErrorCode.PeerRefused
      throw new EGpuError(code, `the sender refused: ${plainText(text.toString('utf8'))}`)
    })
  }
}

/** With hardware for AES on both sides, the shorter key is the faster one. */
const fastCiphers = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256'

function fingerprintOf(socket: TLSSocket): string {
  return socket.getPeerCertificate().fingerprint256?.replaceAll(':', '').toLowerCase()
}

function impostor({ name, host }: BulkLink): EGpuError {
  return new EGpuError(EGpuErrorCode.PermissionDenied, `${host} (${name}) is not the sender that was announced`)
}

function lost({ name }: BulkLink, why: string, cause?: unknown): EGpuError {
  return new EGpuError(EGpuErrorCode.PeerLost, `the connection over ${name} ended: ${why}`, { cause })
}
