import { describe, expect, it } from 'vitest'
import { routerUidOf } from '../../src/enclosure/router-uid.ts'

describe('routerUidOf', () => {
  it('turns the little-endian UUID back into the UID', () => {
    expect(routerUidOf('efcdab89-6745-2301-ffff-ffffffffffff')).toBe('0123456789abcdef')
  })

  it('finds no UID in an id that a firmware connection manager made up', () => {
    expect(routerUidOf('c0030000-00a2-8508-2219-2d8d1d0b4f01')).toBeUndefined()
    expect(routerUidOf(undefined)).toBeUndefined()
  })
})
