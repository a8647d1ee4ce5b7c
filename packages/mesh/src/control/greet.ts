import type { TLSSocket } from 'node:tls'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { asShape, asText } from '../shape.ts'
import { plainText } from '../text.ts'
import { helloMessage, readHello, type Hello } from './hello.ts'
import { MessageStream } from './message-stream.ts'
import { exportedKey, peerOf } from './secure-socket.ts'

/** TLS and hello together; a healthy peer needs a few milliseconds. */
export const greetingDeadlineMs = 5_000

export interface Greeting {
  readonly peerId: string
  readonly hello: Hello
  readonly stream: MessageStream
}

export interface GreetOptions {
  /** Throws, with the reason, for a peer this host will not talk to. */
  readonly admit: (peerId: string) => void
  readonly hello: (socket: TLSSocket) => Hello
  /** Whether this host dialled: it waits for the other's welcome, since the other may still refuse after the hellos. */
  readonly dialled: boolean
  readonly signal: AbortSignal
}

/**
 * Both sides check the other's key first and say hello only to a peer they trust; a stranger hears that it is not
 * trusted, and nothing more. Rejects with the reason, with the connection closed.
 */
export async function greet(socket: TLSSocket, { admit, hello, dialled, signal }: GreetOptions): Promise<Greeting> {
  const stream = new MessageStream(socket)
  const binding = exportedKey(socket, 'hello').toString('hex')
  try {
    const peerId = peerOf(socket)
    admit(peerId)
    stream.send(helloMessage(hello(socket), binding))
    const message = await stream.next(signal)
    refusalIn(message)
    const greeting = { peerId, hello: readHello(message, binding), stream }
    if (dialled) readWelcome(await stream.next(signal))
    return greeting
  } catch (error) {
    if (EGpuError.is(error)) stream.finish({ t: 'bye', reason: error.code, message: error.message })
    else stream.destroy()
    throw error
  }
}

function readWelcome(message: unknown): void {
  refusalIn(message)
  if (asShape(message)?.['t'] !== 'welcome')
    throw new EGpuError(EGpuErrorCode.MalformedData, 'the other side did not answer the hello with a welcome')
}

/** A goodbye in place of a hello is the other side's refusal. */
function refusalIn(message: unknown): void {
  const shape = asShape(message)
  if (shape?.['t'] !== 'bye') return
  const text = plainText(asText(shape['message'], 4_096) ?? 'no reason given')
  const code =
    shape['reason'] === EGpuErrorCode.IdentityCopied ? EGpuErrorCode.IdentityCopied : EGpuErrorCode.PeerNotTrusted
  throw new EGpuError(code, `the other host refused: ${text}`)
}
