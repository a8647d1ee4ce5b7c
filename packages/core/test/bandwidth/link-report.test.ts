import { describe, expect, it } from 'vitest'
import { linkReport, pcieHopGBps, thunderboltPayloadGBps, ThunderboltSpeed, type LinkFacts } from '../../src/index.ts'

const { TB3, TB4, TB5 } = ThunderboltSpeed

function both(lanes: number, gbpsPerLane: number): NonNullable<LinkFacts['trained']> {
  return { toDevice: { lanes, gbpsPerLane }, fromDevice: { lanes, gbpsPerLane } }
}

const rootPort = { id: '0000:02:00.0', kind: 'virtual', lanes: 4, gtPerSecond: 2.5, maxLanes: 4 } as const

function gpu(gtPerSecond: number, lanes: number = 4) {
  return { id: '0000:04:00.0', kind: 'real', lanes, gtPerSecond, maxLanes: 4, maxGtPerSecond: 16 } as const
}

describe('thunderboltPayloadGBps', () => {
  // Measured: GPU-PCIe-Test (TB3), CachyOS/linux-cachyos 1021 (USB4 idle), Tom's Hardware 2025 (TB5).
  it.each([
    [TB3, 2, 20, [2.4, 2.75]],
    [TB4, 2, 20, [3.86, 3.91]],
    [TB5, 2, 40, [5.6, 5.8]],
  ] as const)('lands within 5 %% of what was measured on %s', (sticker, lanes, gbpsPerLane, [low, high]) => {
    const estimate = thunderboltPayloadGBps({ lanes, gbpsPerLane }, sticker)
    expect(estimate).toBeGreaterThanOrEqual(low * 0.95)
    expect(estimate).toBeLessThanOrEqual(high * 1.05)
  })

  it('follows the lanes when fewer were trained than the generation has', () => {
    const full = thunderboltPayloadGBps({ lanes: 2, gbpsPerLane: 20 }, TB4)
    expect(thunderboltPayloadGBps({ lanes: 1, gbpsPerLane: 20 }, TB4)).toBeCloseTo(full! / 2)
    expect(thunderboltPayloadGBps({ lanes: 2, gbpsPerLane: 10 }, TB4)).toBeCloseTo(full! / 2)
  })

  it('is undefined while the trained lanes are unknown, whatever the sticker says', () => {
    expect(thunderboltPayloadGBps(undefined, TB5)).toBeUndefined()
  })

  it.each([
    [0, 20, RangeError],
    [4, 20, RangeError],
    [1.5, 20, RangeError],
    [2, -20, RangeError],
    [2, Number.NaN, TypeError],
  ])('refuses %d lanes of %d Gb/s', (lanes, gbpsPerLane, error) => {
    expect(() => thunderboltPayloadGBps({ lanes, gbpsPerLane }, TB4)).toThrow(error)
  })
})

describe('linkReport', () => {
  it('names the cable as the bottleneck of a healthy Thunderbolt link and ignores the virtual hop', () => {
    const report = linkReport({ sticker: TB4, trained: both(2, 20), hops: [rootPort, gpu(16)] })
    expect(report.bottleneck?.at).toBe('cable')
    expect(report.effectiveGBps?.toDevice).toBeCloseTo(3.79, 2)
    expect(report.effectiveGBps?.fromDevice).toBeCloseTo(3.79, 2)
    expect(report.hops[0]?.effectiveGBps).toBeUndefined()
    expect(report.hops[1]?.effectiveGBps).toBeCloseTo(pcieHopGBps(4, 16)!)
    expect(report.downgrade).toBeUndefined()
  })

  it('names the uplink of a discrete host controller that has only two lanes', () => {
    const uplink = { id: '0000:04:00.0', name: 'host controller', kind: 'real', lanes: 2, gtPerSecond: 8 } as const
    const report = linkReport({ sticker: TB3, trained: both(2, 20), hops: [uplink, rootPort, gpu(8)] })
    expect(report.bottleneck?.at).toBe(uplink.id)
    expect(report.bottleneck?.reason).toContain('host controller has 2 lanes')
    expect(report.effectiveGBps?.toDevice).toBeCloseTo(pcieHopGBps(2, 8)!)
    expect(report.bottleneck?.effectiveGBps).toBe(report.effectiveGBps?.toDevice)
  })

  it('never counts virtual or internal hops, however slow', () => {
    const inside = { id: 'switch', kind: 'internal', lanes: 1, gtPerSecond: 2.5 } as const
    const plain = linkReport({ sticker: TB4, trained: both(2, 20), hops: [gpu(16)] })
    const report = linkReport({
      sticker: TB4,
      trained: both(2, 20),
      hops: [{ ...rootPort, lanes: 1 }, gpu(16), inside],
    })
    expect(report.effectiveGBps).toEqual(plain.effectiveGBps)
  })

  it('estimates OCuLink, which has no cable of its own, from its hop', () => {
    const report = linkReport({ hops: [gpu(16)] })
    expect(report.bottleneck?.at).toBe('0000:04:00.0')
    expect(report.effectiveGBps?.fromDevice).toBeCloseTo(6.63, 2)
    expect(report.sticker).toBeUndefined()
  })

  it('tells the directions of asymmetric mode apart: more lanes one way do not raise PCI Express', () => {
    const symmetric = linkReport({ sticker: TB5, trained: both(2, 40), hops: [gpu(16)] })
    const report = linkReport({
      sticker: TB5,
      trained: { toDevice: { lanes: 3, gbpsPerLane: 40 }, fromDevice: { lanes: 1, gbpsPerLane: 40 } },
      hops: [gpu(16)],
    })
    expect(report.effectiveGBps?.toDevice).toBe(symmetric.effectiveGBps?.toDevice)
    expect(report.effectiveGBps?.fromDevice).toBeLessThan(symmetric.effectiveGBps!.fromDevice!)
    expect(report.bottleneck?.effectiveGBps).toBe(report.effectiveGBps?.fromDevice)
    expect(report.downgrade).toBeUndefined()
  })

  it('leaves everything undefined that was not read', () => {
    expect(linkReport({})).toEqual({ hops: [] })
    expect(linkReport({ sticker: TB4 }).effectiveGBps).toBeUndefined()
    expect(linkReport({ sticker: TB4, hops: [rootPort, gpu(16)] }).bottleneck).toBeUndefined()
    expect(linkReport({ hops: [rootPort, gpu(16)] }).effectiveGBps).toBeUndefined()
    expect(linkReport({ hops: [{ id: 'a', kind: 'real' }] }).effectiveGBps).toBeUndefined()
    const asleep = { id: 'a', kind: 'real', lanes: 4 } as const
    expect(linkReport({ sticker: TB4, trained: both(2, 20), hops: [asleep] }).bottleneck).toBeUndefined()
  })

  it('knows one direction when only one was read', () => {
    const report = linkReport({ sticker: TB4, trained: { toDevice: { lanes: 2, gbpsPerLane: 20 } } })
    expect(report.effectiveGBps?.toDevice).toBeCloseTo(3.79, 2)
    expect(report.effectiveGBps?.fromDevice).toBeUndefined()
    expect(report.downgrade).toBeUndefined()
  })

  it.each([
    ['one lane', both(1, 20), '20 Gb/s: 1 lane of 20 Gb/s'],
    ['10 Gb/s lanes', both(2, 10), '20 Gb/s: 2 lanes of 10 Gb/s'],
  ])('reports a 40 Gb/s cable that fell back to %s', (_, trained, actual) => {
    expect(linkReport({ sticker: TB4, trained }).downgrade).toEqual({ at: 'cable', expected: '40 Gb/s', actual })
  })

  it('reports a hop below what both its ends can do, in width or speed', () => {
    expect(linkReport({ hops: [gpu(8)], underLoad: true }).downgrade).toEqual({
      at: '0000:04:00.0',
      expected: '16 GT/s x4',
      actual: '8 GT/s x4',
    })
    expect(linkReport({ hops: [gpu(16, 1)] }).downgrade?.actual).toBe('16 GT/s x1')
  })

  it('takes a low speed for a GPU that saves power, unless it was read under load', () => {
    for (const gtPerSecond of [2.5, 8]) {
      const idle = linkReport({ hops: [gpu(gtPerSecond)] })
      expect(idle.downgrade).toBeUndefined()
      expect(idle.effectiveGBps?.toDevice).toBeCloseTo(pcieHopGBps(4, 16)!)
    }
    const busy = linkReport({ hops: [gpu(2.5)], underLoad: true })
    expect(busy.downgrade?.actual).toBe('2.5 GT/s x4')
    expect(busy.effectiveGBps?.toDevice).toBeCloseTo(pcieHopGBps(4, 2.5)!)
  })

  it('keeps what a probe measured', () => {
    const measuredGBps = { toDevice: 2.8, fromDevice: 3.29 }
    expect(linkReport({ measuredGBps }).measuredGBps).toEqual(measuredGBps)
  })

  it.each([
    ['a width of 255', { hops: [gpu(16, 255)] }, RangeError],
    ['a maximum width of 0', { hops: [{ ...gpu(16), maxLanes: 0 }] }, RangeError],
    ['a speed that is not a number', { hops: [gpu(Number.NaN)] }, TypeError],
    ['a negative lane rate', { trained: both(2, -1) }, RangeError],
  ] as const)('refuses %s', (_, facts, error) => {
    expect(() => linkReport(facts)).toThrow(error)
  })
})
