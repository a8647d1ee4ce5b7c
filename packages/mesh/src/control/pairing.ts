import { randomBytes, randomInt, scrypt } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { EGpuError, EGpuErrorCode, type AbortOptions } from '@egpu/core'
import type { PairedPeer } from '../identity/mesh-directory.ts'
import type { MeshIdentity } from '../identity/identity.ts'
import { asShape, asText, type Shape } from '../shape.ts'
import { plainText } from '../text.ts'
import { within } from '../deadline.ts'
import { dialSecure } from './control-plane.ts'
import { MessageStream } from './message-stream.ts'
import { exportedKey, peerOf, Purpose } from './secure-socket.ts'
import { confirms, scalarOf, spake2Finish, spake2Share, type Spake2Keys, type Spake2Start } from './spake2.ts'

const version = 1
const codeDigits = 8
/** Wrong codes before a new one has to be made: three guesses at one of 10^8. */
const attempts = 3
const stepDeadlineMs = 10_000

export interface PairingSelf {
  readonly identity: MeshIdentity
  /** Shown at the other host: without control characters, 128 at most. */
  readonly name: string
}

/** Waits for a host whose person types the code. */
export interface PairingWindow extends AsyncDisposable {
  /** To read out: `1234-5678`. Good for one pairing and three attempts. */
  readonly code: string
  /** Resolves to the host that knew the code; rejects once the window is closed or three were wrong. */
  readonly paired: Promise<PairedPeer>
  /** Takes a connection of a host that wants to pair. */
  accept(socket: TLSSocket): Promise<void>
  close(): Promise<void>
}

export function newPairingCode(): string {
  const digits = String(randomInt(10 ** codeDigits)).padStart(codeDigits, '0')
  return `${digits.slice(0, 4)}-${digits.slice(4)}`
}

/** The side that shows a code. Whoever connects has to prove that it knows it before this side proves anything. */
export function openPairing(self: PairingSelf, code: string = newPairingCode()): PairingWindow {
  const scalar = passwordScalar(digitsOf(code))
  let left = attempts
  let isOpen = true
  let settle: { resolve(peer: PairedPeer): void; reject(error: unknown): void } | undefined
  const paired = new Promise<PairedPeer>((resolve, reject) => (settle = { resolve, reject }))
  // Nobody may be waiting yet when it fails.
  paired.catch(() => {})
  const end = (error: EGpuError): void => {
    isOpen = false
    settle?.reject(error)
  }
  const accept = async (socket: TLSSocket): Promise<void> => {
    const stream = new MessageStream(socket)
    const refuse = (message: string): void => stream.finish({ t: 'bye', reason: EGpuErrorCode.PeerNotTrusted, message })
    if (!isOpen) {
      refuse('nobody waits for a pairing here; run egpu mesh pair without a code there')
      return
    }
    try {
      const peerId = peerOf(socket)
      const offer = readOffer(await nextOf(stream))
      const start = startOf('b', await scalar)
      stream.send({ t: 'pair', version, share: spake2Share(start).toString('hex'), name: self.name })
      const keys = finish(socket, start, offer.share, [peerId, self.identity.nodeId], [offer.name, self.name])
      const proof = readProof(await nextOf(stream))
      if (!isOpen) {
        refuse('the code is not good any more: another host used it, or three others were wrong')
        return
      }
      if (!confirms(proof, keys)) {
        left -= 1
        refuse(left > 0 ? 'the code is wrong' : 'the code is wrong, and void after three attempts')
        if (left === 0) end(notTrusted('three wrong codes were tried; start the pairing again with a new one'))
        return
      }
      isOpen = false
      stream.finish({ t: 'confirm', proof: keys.confirmation.toString('hex') })
      settle?.resolve(pairedPeer(peerId, offer.name))
    } catch {
      stream.destroy()
    }
  }
  const close = (): Promise<void> => {
    end(new EGpuError(EGpuErrorCode.Closed, 'the pairing was closed before a host knew the code'))
    return Promise.resolve()
  }
  return { code, paired, accept, close, [Symbol.asyncDispose]: close }
}

/**
 * The side that types the code. Resolves to the host that showed it.
 * Rejects with `EGPU_PEER_NOT_TRUSTED` when the code is wrong there, `EGPU_PEER_LOST` when nobody answers.
 */
export async function pairWith(
  self: PairingSelf,
  { host, port, code }: { readonly host: string; readonly port: number; readonly code: string },
  { signal }: AbortOptions = {},
): Promise<PairedPeer> {
  const scalar = await passwordScalar(digitsOf(code))
  const deadline = within(stepDeadlineMs, signal)
  let socket: TLSSocket
  try {
    socket = await dialSecure(self.identity, host, port, Purpose.Pair, deadline)
  } catch (cause) {
    signal?.throwIfAborted()
    throw new EGpuError(EGpuErrorCode.PeerLost, `cannot reach ${host} port ${port} to pair`, { cause })
  }
  const stream = new MessageStream(socket)
  try {
    const peerId = peerOf(socket)
    const start = startOf('a', scalar)
    stream.send({ t: 'pair', version, share: spake2Share(start).toString('hex'), name: self.name })
    const offer = readOffer(await stream.next(deadline))
    const keys = finish(socket, start, offer.share, [self.identity.nodeId, peerId], [self.name, offer.name])
    stream.send({ t: 'confirm', proof: keys.confirmation.toString('hex') })
    if (!confirms(readProof(await stream.next(deadline)), keys))
      throw notTrusted('the other host does not know the code: somebody stands between the two')
    return pairedPeer(peerId, offer.name)
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    stream.destroy()
  }
}

/** Eight digits, with or without a dash or spaces; `TypeError` for anything else. */
export function digitsOf(code: string): string {
  const digits = typeof code === 'string' ? code.replace(/[\s-]/g, '') : ''
  if (!/^\d{8}$/.test(digits)) throw new TypeError('a pairing code has eight digits, as in 1234-5678')
  return digits
}

/** Slow on purpose (scrypt), although an attacker cannot try codes without asking anyway. */
function passwordScalar(digits: string): Promise<bigint> {
  return new Promise((resolve, reject) =>
    scrypt(digits, 'egpu-mesh pair 1', 48, { N: 2 ** 14, r: 8, p: 1 }, (error, bytes) =>
      error === null ? resolve(scalarOf(bytes)) : reject(error),
    ),
  )
}

function startOf(role: 'a' | 'b', w: bigint): Spake2Start {
  return { role, w, secret: scalarOf(randomBytes(48)) }
}

type Pair<T> = readonly [ofA: T, ofB: T]

/** Keys, names and this very TLS connection all go in: a host in between has other keys and another connection. */
function finish(
  socket: TLSSocket,
  start: Spake2Start,
  share: Buffer,
  ids: Pair<string>,
  names: Pair<string>,
): Spake2Keys {
  const [a, b] = [Buffer.from(ids[0], 'hex'), Buffer.from(ids[1], 'hex')]
  const binding = exportedKey(socket, 'pair').toString('hex')
  return spake2Finish(start, share, { a, b, additionalData: Buffer.from(JSON.stringify([version, binding, ...names])) })
}

function nextOf(stream: MessageStream): Promise<unknown> {
  return stream.next(AbortSignal.timeout(stepDeadlineMs))
}

function readOffer(message: unknown): { readonly share: Buffer; readonly name: string } {
  const shape = expect(message, 'pair')
  const share = asText(shape['share'], 130)
  const name = asText(shape['name'])
  if (shape['version'] !== version) throw notTrusted('the other host pairs by another version; upgrade the older one')
  if (share === undefined || name === undefined || !/^[\da-f]{130}$/.test(share)) throw malformed()
  return { share: Buffer.from(share, 'hex'), name: plainText(name) }
}

function readProof(message: unknown): Buffer {
  const proof = asText(expect(message, 'confirm')['proof'], 64)
  if (proof === undefined || !/^[\da-f]{64}$/.test(proof)) throw malformed()
  return Buffer.from(proof, 'hex')
}

function expect(message: unknown, type: string): Shape {
  const shape = asShape(message)
  if (shape?.['t'] === 'bye')
    throw notTrusted(`the other host refused: ${plainText(asText(shape['message'], 512) ?? '')}`)
  if (shape?.['t'] !== type) throw malformed()
  return shape
}

function pairedPeer(id: string, name: string): PairedPeer {
  return { id, name, pairedAt: new Date().toISOString() }
}

function notTrusted(message: string): EGpuError {
  return new EGpuError(EGpuErrorCode.PeerNotTrusted, message)
}

function malformed(): EGpuError {
  return new EGpuError(EGpuErrorCode.MalformedData, 'the other host sent something that does not belong to a pairing')
}
