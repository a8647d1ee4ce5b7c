import { describe, expect, it } from 'vitest'
import { hopsOf, parentNameOf, tunnelledRouter } from '../../src/topology/route.ts'

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

describe('the router a tunnel leads to', () => {
  it.each([
    ['domain0', '0:5 <-> 1:9 (PCI)', '0-1'],
    ['domain0', '1:3 <-> 301:9 (PCI)', '0-301'],
    ['domain1', '301:9 <-> 1:3 (PCI)', '1-301'],
    ['domain0', '0:6 <-> 1:10 (DP)', undefined],
    ['domain0', '(PCI)', undefined],
    ['domain0', '1:3 <-> 2:3 (PCI)', undefined],
    ['0-1', '0:5 <-> 1:9 (PCI)', undefined],
    ['domain0', undefined, undefined],
  ])('%s says %s: %s', (domain, details, router) => {
    expect(tunnelledRouter(domain, details)).toBe(router)
  })
})
