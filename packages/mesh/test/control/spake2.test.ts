import { describe, expect, it } from 'vitest'
import { confirms, scalarOf, spake2Finish, spake2Share } from '../../src/control/spake2.ts'

const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')
const number = (hex: string): bigint => BigInt(`0x${hex}`)

/** RFC 9382, appendix B, the first vector. */
const vectors = [
  {
    a: 'server',
    b: 'client',
    w: '2ee57912099d31560b3a44b1184b9b4866e904c49d12ac5042c97dca461b1a5f',
    x: '43dd0fd7215bdcb482879fca3220c6a968e66d70b1356cac18bb26c84a78d729',
    y: 'dcb60106f276b02606d8ef0a328c02e4b629f84f89786af5befb0bc75b6e66be',
    shareA:
      '04a56fa807caaa53a4d28dbb9853b9815c61a411118a6fe516a8798434751470f9010153ac33d0d5f2047ffdb1a3e42c9b4e6be662766e1eeb4116988ede5f912c',
    shareB:
      '0406557e482bd03097ad0cbaa5df82115460d951e3451962f1eaf4367a420676d09857ccbc522686c83d1852abfa8ed6e4a1155cf8f1543ceca528afb591a1e0b7',
    key: '0e0672dc86f8e45565d338b0540abe69',
    byA: '58ad4aa88e0b60d5061eb6b5dd93e80d9c4f00d127c65b3b35b1b5281fee38f0',
    byB: 'd3e2e547f1ae04f2dbdbf0fc4b79f8ecff2dff314b5d32fe9fcef2fb26dc459b',
  },
]

describe('SPAKE2', () => {
  it.each(vectors)('gives what RFC 9382 prints for $a and $b', ({ a, b, w, x, y, shareA, shareB, key, byA, byB }) => {
    const identities = { a: Buffer.from(a), b: Buffer.from(b) }
    const sideA = { role: 'a', w: number(w), secret: number(x) } as const
    const sideB = { role: 'b', w: number(w), secret: number(y) } as const
    expect(spake2Share(sideA).toString('hex')).toBe(shareA)
    expect(spake2Share(sideB).toString('hex')).toBe(shareB)
    const keysA = spake2Finish(sideA, bytes(shareB), identities)
    const keysB = spake2Finish(sideB, bytes(shareA), identities)
    expect([keysA, keysB].map((keys) => keys.key.toString('hex'))).toEqual([key, key])
    expect([keysA, keysB].map((keys) => keys.confirmation.toString('hex'))).toEqual([byA, byB])
    expect(confirms(keysB.confirmation, keysA)).toBe(true)
    expect(confirms(keysA.confirmation, keysA)).toBe(false)
  })

  it('gives different keys for different codes, names or additional data', () => {
    const identities = { a: Buffer.from('a'), b: Buffer.from('b') }
    const [secretA, secretB] = [scalarOf(Buffer.alloc(48, 1)), scalarOf(Buffer.alloc(48, 2))]
    const meet = (wA: bigint, wB: bigint, ofB: typeof identities & { additionalData?: Uint8Array }): boolean => {
      const a = { role: 'a', w: wA, secret: secretA } as const
      const b = { role: 'b', w: wB, secret: secretB } as const
      return confirms(
        spake2Finish(b, spake2Share(a), ofB).confirmation,
        spake2Finish(a, spake2Share(b), { ...identities }),
      )
    }
    expect(meet(5n, 5n, identities)).toBe(true)
    expect(meet(5n, 6n, identities)).toBe(false)
    expect(meet(5n, 5n, { ...identities, b: Buffer.from('c') })).toBe(false)
    expect(meet(5n, 5n, { ...identities, additionalData: Buffer.from('x') })).toBe(false)
  })

  it.each([
    ['too short', Buffer.alloc(64, 4), /65 bytes/],
    ['the point at infinity', Buffer.alloc(65), /bad point/i],
    ['off the curve', Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 7)]), /bad point/i],
    ['compressed', bytes('02886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f'), /65 bytes/],
  ])('refuses a share that is %s', (_what, share, words) => {
    const side = { role: 'a', w: 5n, secret: 7n } as const
    expect(() => spake2Finish(side, share, { a: Buffer.alloc(0), b: Buffer.alloc(0) })).toThrow(words)
  })

  it('refuses a share whose key anyone could know', () => {
    const side = { role: 'a', w: 5n, secret: 7n } as const
    // 5 N: after the blinding is taken away nothing is left, whatever the secret.
    const share = bytes(
      '0476c130a0e3f46cc7ceb2243bd0531a89beea8ac8972adacef4dab402aa1bdc5666d15d00a59a586286116e079322f97e3219ec34328218170d4d88265032a0a9',
    )
    expect(() => spake2Finish(side, share, { a: Buffer.alloc(0), b: Buffer.alloc(0) })).toThrow(/anyone could know/)
  })
})
