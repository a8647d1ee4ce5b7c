import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { p256 } from '@noble/curves/nist.js'

/**
 * SPAKE2 with P256-SHA256-HKDF-HMAC (RFC 9382): two sides that typed the same short code get a common key, and a guesser
 * gets one guess per run and nothing to try guesses on afterwards. One side is A, the other B.
 */
const { Point } = p256
type Element = InstanceType<typeof Point>

/** Points whose logarithms nobody knows (RFC 9382, section 6). */
const m = Point.fromHex('02886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f')
const n = Point.fromHex('03d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b49')
const order = Point.Fn.ORDER

export type Spake2Role = 'a' | 'b'

export interface Spake2Start {
  readonly role: Spake2Role
  /** The password as a scalar, 1 to the order of the group. */
  readonly w: bigint
  /** A fresh secret scalar; a test gives those of the RFC. */
  readonly secret: bigint
}

export interface Spake2Identities {
  readonly a: Uint8Array
  readonly b: Uint8Array
  /** Bound into the key confirmation: what else both sides must agree on. */
  readonly additionalData?: Uint8Array | undefined
}

export interface Spake2Keys {
  /** The shared secret. */
  readonly key: Buffer
  /** To send to the other side. */
  readonly confirmation: Buffer
  /** What the other side has to send. */
  readonly expected: Buffer
}

/** A scalar from 1 up to the order, from at least 48 bytes so that it is evenly spread. */
export function scalarOf(bytes: Uint8Array): bigint {
  return (BigInt(`0x${Buffer.from(bytes).toString('hex')}`) % (order - 1n)) + 1n
}

/** This side's share, 65 bytes, to send. */
export function spake2Share({ role, w, secret }: Spake2Start): Buffer {
  const blind = role === 'a' ? m : n
  return Buffer.from(Point.BASE.multiply(secret).add(blind.multiply(w)).toBytes(false))
}

/** Throws for a share that is no point of the curve, or that would give a key anyone could know. */
export function spake2Finish(start: Spake2Start, otherShare: Uint8Array, identities: Spake2Identities): Spake2Keys {
  const { role, w, secret } = start
  const theirs = pointOf(otherShare)
  const blind = role === 'a' ? n : m
  const shared = theirs.subtract(blind.multiply(w)).multiply(secret)
  if (shared.equals(Point.ZERO)) throw new RangeError('the share gives a key that anyone could know')
  const own = spake2Share(start)
  const [shareA, shareB] = role === 'a' ? [own, otherShare] : [otherShare, own]
  const transcript = Buffer.concat(
    [identities.a, identities.b, shareA, shareB, shared.toBytes(false), scalarBytes(w)].flatMap(withLength),
  )
  const hash = createHash('sha256').update(transcript).digest()
  const info = Buffer.concat([Buffer.from('ConfirmationKeys'), identities.additionalData ?? Buffer.alloc(0)])
  const keys = Buffer.from(hkdfSync('sha256', hash.subarray(16), Buffer.alloc(0), info, 32))
  const mac = (key: Buffer): Buffer => createHmac('sha256', key).update(transcript).digest()
  const [byA, byB] = [mac(keys.subarray(0, 16)), mac(keys.subarray(16))]
  const [confirmation, expected] = role === 'a' ? [byA, byB] : [byB, byA]
  return { key: hash.subarray(0, 16), confirmation, expected }
}

/** Compares without telling by its duration how much was right. */
export function confirms(received: Uint8Array, { expected }: Spake2Keys): boolean {
  return received.length === expected.length && timingSafeEqual(received, expected)
}

function pointOf(bytes: Uint8Array): Element {
  if (bytes.length !== 65) throw new RangeError(`a share has 65 bytes, not ${bytes.length}`)
  const point = Point.fromBytes(bytes)
  point.assertValidity()
  return point
}

/** Each part is preceded by its length, 8 bytes, lowest first. */
function withLength(part: Uint8Array): [Buffer, Uint8Array] {
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(part.length))
  return [length, part]
}

function scalarBytes(scalar: bigint): Buffer {
  return Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
}
