import { describe, expect, it } from 'vitest'
import { oculinkTable, pcieHopGBps, pcieTable, thunderboltTable, ThunderboltSpeed, usb4Table } from '../../src/index.ts'

const cables = [...Object.entries(thunderboltTable), ...Object.entries(usb4Table), ...Object.entries(oculinkTable)]

describe('cable tables', () => {
  it.each(cables)('%s has a source for each number and numbers that agree', (_, row) => {
    const { sources, ...numbers } = row
    expect(Object.keys(sources).sort()).toEqual(Object.keys(numbers).sort())
    for (const source of Object.values(sources)) expect(source.length).toBeGreaterThan(8)
    const range = row.rangeGBps ?? { low: 0, high: Infinity }
    expect(range.low).toBeLessThanOrEqual(row.typicalGBps)
    expect(range.high).toBeGreaterThanOrEqual(row.typicalGBps)
    expect(row.typicalGBps * 8).toBeLessThan(row.pcieGbps)
    expect(row.pcieGbps).toBeLessThanOrEqual(row.linkGbps)
  })

  it('has every Thunderbolt generation, none slower than the one before', () => {
    const rows = Object.values(ThunderboltSpeed).map((speed) => thunderboltTable[speed])
    expect(rows.map((row) => row.linkGbps)).toEqual([10, 20, 40, 40, 80])
    expect(rows.map((row) => row.pcieGbps)).toEqual([10, 16, 22, 32, 64])
    expect(rows.map((row) => row.typicalGBps)).toEqual(rows.map((row) => row.typicalGBps).toSorted((a, b) => a - b))
  })

  it('gives four lanes to every generation and does not let asymmetric mode raise PCI Express', () => {
    expect(cables.every(([, row]) => row.pcieEquivalent.endsWith('x4'))).toBe(true)
    expect(thunderboltTable['thunderbolt-5'].asymmetricGbps).toEqual({ wide: 120, narrow: 40 })
    expect(thunderboltTable['thunderbolt-5'].pcieGbps).toBe(64)
  })
})

describe('PCI Express table', () => {
  it('has generations 1 to 6 with the rates of the specification', () => {
    expect(pcieTable.map((row) => row.generation)).toEqual([1, 2, 3, 4, 5, 6])
    const perLane = pcieTable.map((row) => Number(row.gBpsPerLane.toFixed(3)))
    expect(perLane).toEqual([0.25, 0.5, 0.985, 1.969, 3.938, 7.375])
  })
})

describe('pcieHopGBps', () => {
  // Measured copies to and from the GPU: NVIDIA/nvbandwidth 15, BaM 54, Tom's Hardware 2025.
  it.each([
    ['PCIe 4.0 x16', 16, 16, [23.9, 27.1]],
    ['PCIe 3.0 x16', 16, 8, [12, 13]],
    ['OCuLink 4.0 x4', 4, 16, [6.6, 6.7]],
  ] as const)('lands within 5 %% of what was measured on %s', (_, lanes, gtPerSecond, [low, high]) => {
    const estimate = pcieHopGBps(lanes, gtPerSecond)
    expect(estimate).toBeGreaterThanOrEqual(low * 0.95)
    expect(estimate).toBeLessThanOrEqual(high * 1.05)
  })

  it('is undefined while lanes or speed are unknown', () => {
    expect(pcieHopGBps(undefined, 16)).toBeUndefined()
    expect(pcieHopGBps(4, undefined)).toBeUndefined()
  })

  it.each([
    ['NaN lanes', Number.NaN, 16, TypeError],
    ['text', '4' as unknown as number, 16, TypeError],
    ['negative lanes', -4, 16, RangeError],
    ['no lanes', 0, 16, RangeError],
    ['the 255 of a lost GPU', 255, 16, RangeError],
    ['a speed that does not exist', 4, 7, RangeError],
    ['an infinite speed', 4, Infinity, RangeError],
  ])('refuses %s', (_, lanes, gtPerSecond, error) => {
    expect(() => pcieHopGBps(lanes, gtPerSecond)).toThrow(error)
  })
})
