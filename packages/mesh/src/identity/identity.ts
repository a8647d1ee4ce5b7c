import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { selfSigned } from './certificate.ts'

const dayMs = 24 * 60 * 60 * 1_000

/** Who this host is to others: a P-256 key. The certificate is made anew at every start and is only its wrapping. */
export interface MeshIdentity {
  /** SHA-256 over the public key (SPKI, DER), 64 hex digits. */
  readonly nodeId: string
  readonly privateKeyPem: string
  readonly certificatePem: string
}

export function newPrivateKey(): KeyObject {
  return generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey
}

/** An identity from its key. The certificate starts a day early, for peers whose clocks are behind. */
export function identityOf(privateKey: KeyObject, now: number = Date.now()): MeshIdentity {
  return {
    nodeId: fingerprint(createPublicKey(privateKey)),
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificatePem: selfSigned(privateKey, {
      notBefore: new Date(now - dayMs),
      notAfter: new Date(now + 400 * dayMs),
    }),
  }
}

/** An identity that lives as long as the process: for tests, and for hosts that are paired by fingerprint each time. */
export function temporaryIdentity(): MeshIdentity {
  return identityOf(newPrivateKey())
}

export function identityFromPem(privateKeyPem: string): MeshIdentity {
  return identityOf(createPrivateKey(privateKeyPem))
}

/** SHA-256 over a public key, 64 hex digits: what hosts are known by. */
export function fingerprint(publicKey: KeyObject): string {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}

export function isFingerprint(text: unknown): text is string {
  return typeof text === 'string' && /^[\da-f]{64}$/.test(text)
}
