import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { AnswerKind, headBytes } from '../../src/bulk/wire.ts'

export interface CuttingRelay extends AsyncDisposable {
  readonly host: string
  /** Bytes that went on to receivers, on all connections. */
  readonly passedBytes: number
  readonly cuts: number
}

export interface RelayPlan {
  /** After how many bytes a connection ends; `undefined` for never. */
  readonly nextCut?: () => number | undefined
  /** Every chunk arrives with one bit turned over. */
  readonly spoils?: boolean
}

/** A cable to a sender on this machine that breaks at exact places. All of what went through before arrives. */
export async function cuttingRelay(
  host: string,
  port: number,
  { nextCut = () => undefined, spoils = false }: RelayPlan,
): Promise<CuttingRelay> {
  const sockets = new Set<Socket>()
  let passedBytes = 0
  let cuts = 0
  const server = createServer({ allowHalfOpen: true }, (receiver) => {
    const sender = connect(port, '127.0.0.1')
    let left = nextCut() ?? Infinity
    const spoil = spoils ? spoiler() : () => {}
    for (const socket of [receiver, sender]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.on('close', () => sockets.delete(socket))
    }
    receiver.pipe(sender)
    sender.on('data', (bytes: Buffer) => {
      const some = bytes.subarray(0, left)
      spoil(some)
      left -= some.byteLength
      passedBytes += some.byteLength
      receiver.write(some)
      if (left > 0) return
      cuts += 1
      sender.destroy()
      receiver.end()
    })
    sender.on('end', () => receiver.end())
    receiver.on('close', () => sender.destroy())
  }).listen(port, host)
  await once(server, 'listening')
  return {
    host,
    get passedBytes() {
      return passedBytes
    },
    get cuts() {
      return cuts
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Follows the answers in a stream and turns over a bit in the first byte of each chunk. */
function spoiler(): (bytes: Buffer) => void {
  const head = Buffer.alloc(headBytes)
  let headFilled = 0
  let bodyLeft = 0
  let isFirst = false
  return (bytes) => {
    for (let at = 0; at < bytes.byteLength;) {
      if (bodyLeft > 0) {
        if (isFirst) bytes[at]! ^= 1
        isFirst = false
        const step = Math.min(bodyLeft, bytes.byteLength - at)
        bodyLeft -= step
        at += step
      } else {
        head[headFilled] = bytes[at] as number
        headFilled = (headFilled + 1) % headBytes
        at += 1
        if (headFilled > 0) continue
        bodyLeft = head.readUInt32BE(4)
        isFirst = head.readUInt32BE(0) === AnswerKind.Chunk
      }
    }
  }
}
