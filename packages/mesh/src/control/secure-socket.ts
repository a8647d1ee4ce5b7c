import type { SecureContextOptions, TLSSocket } from 'node:tls'
import { constants, type X509Certificate } from 'node:crypto'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { fingerprint, type MeshIdentity } from '../identity/identity.ts'

/** What a connection is for, agreed on within the TLS handshake (ALPN). */
export const Purpose = { Mesh: 'egpu-mesh', Pair: 'egpu-mesh-pair' } as const
export type Purpose = (typeof Purpose)[keyof typeof Purpose]

/**
 * Both sides show a certificate and prove that they hold its key. No authority is asked: whom to trust is decided by
 * the key's fingerprint, after the handshake, by `peerOf`. Tickets are off, so every connection proves it afresh.
 */
export function tlsOptions(
  identity: MeshIdentity,
): SecureContextOptions & { readonly requestCert: boolean; readonly rejectUnauthorized: boolean } {
  return {
    key: identity.privateKeyPem,
    cert: identity.certificatePem,
    requestCert: true,
    rejectUnauthorized: false,
    minVersion: 'TLSv1.3',
    secureOptions: constants.SSL_OP_NO_TICKET,
  }
}

/** On the dialling side Node takes the certificate out of the chain when asked, so a second question finds none. */
const certificates = new WeakMap<TLSSocket, X509Certificate>()

/** Fingerprint of the other side's key. Throws `EGPU_PEER_NOT_TRUSTED` without a certificate or with one out of date. */
export function peerOf(socket: TLSSocket, now: number = Date.now()): string {
  const certificate = certificates.get(socket) ?? socket.getPeerX509Certificate()
  if (certificate === undefined)
    throw new EGpuError(EGpuErrorCode.PeerNotTrusted, 'the other side showed no certificate')
  certificates.set(socket, certificate)
  if (now > Date.parse(certificate.validTo))
    throw new EGpuError(
      EGpuErrorCode.PeerNotTrusted,
      `the other side's certificate ended ${certificate.validTo}; restart it, or set the clock that is wrong`,
    )
  if (now < Date.parse(certificate.validFrom))
    throw new EGpuError(
      EGpuErrorCode.PeerNotTrusted,
      `the other side's certificate starts ${certificate.validFrom}, which is in the future: a clock is wrong`,
    )
  return fingerprint(certificate.publicKey)
}

/** 32 bytes that only the two ends of this connection know (RFC 8446, section 7.5). */
export function exportedKey(socket: TLSSocket, label: string): Buffer {
  return socket.exportKeyingMaterial(32, `EXPORTER-egpu-mesh ${label}`, Buffer.alloc(0))
}
