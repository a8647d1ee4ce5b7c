/**
 * A 64-bit fingerprint of bytes, to notice when a replay gave others. Two multiplicative hashes over words (constants
 * of xxHash32, github.com/Cyan4973/xxHash); about 1 GB/s. Not against an adversary.
 */
export function fingerprint(bytes: Uint8Array): string {
  const wordCount = bytes.byteLength >>> 2
  const words = new Uint32Array(
    bytes.byteOffset % 4 === 0 ? bytes.buffer : bytes.slice().buffer,
    bytes.byteOffset % 4 === 0 ? bytes.byteOffset : 0,
    wordCount,
  )
  let a = 0x9e3779b1 ^ bytes.byteLength
  let b = 0x85ebca77
  for (let at = 0; at < wordCount; at += 1) {
    const word = words[at] as number
    a = Math.imul(a ^ word, 0x9e3779b1)
    a ^= a >>> 15
    b = Math.imul(b + word, 0xc2b2ae3d) ^ (b >>> 13)
  }
  for (let at = wordCount * 4; at < bytes.byteLength; at += 1) a = Math.imul(a ^ (bytes[at] as number), 0x27d4eb2f)
  return `${(a >>> 0).toString(16).padStart(8, '0')}${(b >>> 0).toString(16).padStart(8, '0')}`
}
