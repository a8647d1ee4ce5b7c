import { createPublicKey, randomBytes, sign, type KeyObject } from 'node:crypto'
import { AsnConvert, OctetString } from '@peculiar/asn1-schema'
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  Certificate,
  Name,
  RelativeDistinguishedName,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Time,
  Validity,
  Version,
} from '@peculiar/asn1-x509'

/** ecdsa-with-SHA256 (RFC 5758) and commonName (RFC 5280). */
const ecdsaWithSha256 = '1.2.840.10045.4.3.2'
const commonName = '2.5.4.3'

export interface CertificateOptions {
  readonly notBefore: Date
  readonly notAfter: Date
}

/**
 * A self-signed certificate around a P-256 key, as PEM. It carries no name and no address: peers know each other by the
 * fingerprint of the key, everything else is said and checked inside the connection.
 */
export function selfSigned(privateKey: KeyObject, { notBefore, notAfter }: CertificateOptions): string {
  const algorithm = new AlgorithmIdentifier({ algorithm: ecdsaWithSha256 })
  const name = new Name([
    new RelativeDistinguishedName([
      new AttributeTypeAndValue({ type: commonName, value: new AttributeValue({ utf8String: 'egpu-mesh' }) }),
    ]),
  ])
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  const body = new TBSCertificate({
    version: Version.v3,
    // Positive and not padded, as DER wants it.
    serialNumber: Uint8Array.from([0x40, ...randomBytes(15)]).buffer,
    signature: algorithm,
    issuer: name,
    subject: name,
    validity: new Validity({ notBefore: new Time(notBefore).getTime(), notAfter: new Time(notAfter).getTime() }),
    subjectPublicKeyInfo: AsnConvert.parse(spki, SubjectPublicKeyInfo),
  })
  const signature = sign('sha256', Buffer.from(AsnConvert.serialize(body)), privateKey)
  const certificate = new Certificate({
    tbsCertificate: body,
    signatureAlgorithm: algorithm,
    signatureValue: new OctetString(signature).buffer,
  })
  const base64 = Buffer.from(AsnConvert.serialize(certificate)).toString('base64')
  const lines = base64.match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}
