import { describe, expect, it } from 'vitest'
import { hopsOf, parentNameOf } from '../../src/topology/route.ts'

describe('router names', () => {
  it.each([
    ['0-0', [], undefined],
    ['0-1', [1], '0-0'],
    ['0-301', [1, 3], '0-1'],
    ['1-a', [10], '1-0'],
    ['0-50301', [1, 3, 5], '0-301'],
    ['0-1070503010b0d', [13, 11, 1, 3, 5, 7, 1], '0-70503010b0d'],
  ])('%s', (name, hops, parent) => {
    expect(hopsOf(name)).toEqual(hops)
    expect(parentNameOf(name)).toBe(parent)
  })
})
