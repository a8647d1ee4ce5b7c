import { describe, expect, it } from 'vitest'
import {
  linkReport,
  pcieHopGBps,
  predictEfficiency,
  thunderboltPayloadGBps,
  ThunderboltSpeed,
  workTime,
  type LinkRates,
} from '../../src/index.ts'

const { TB1, TB2, TB3, TB4, TB5 } = ThunderboltSpeed
const gpu = { flops: 80e12, memoryGBps: 1000 }

function slot(lanes: number, gtPerSecond: number): LinkRates {
  return each(pcieHopGBps(lanes, gtPerSecond), 0.001)
}

function cable(sticker: ThunderboltSpeed, lanes: number, gbpsPerLane: number): LinkRates {
  return each(thunderboltPayloadGBps({ lanes, gbpsPerLane }, sticker), 0.04)
}

function each(gBps: number | undefined, latencyMs: number): LinkRates {
  return { linkGBps: { toDevice: gBps, fromDevice: gBps }, latencyMs }
}

const oculink = slot(4, 16)

/** Drop against `native`, in percent. */
function drop(work: Parameters<typeof predictEfficiency>[0], link: LinkRates, native: LinkRates): number {
  return 100 * (1 - predictEfficiency(work, gpu, link, native)!.efficiency)
}

describe('predictEfficiency against measurements', () => {
  // Pure transfers, derived from the measured copy rates: TB3 2.75, USB4 3.86, TB5 5.7, OCuLink 6.65 GB/s over 25 and 12.5.
  it.each([
    ['Thunderbolt 3', cable(TB3, 2, 20), 11, 22],
    ['USB4, idle', cable(TB4, 2, 20), 16, 31],
    ['Thunderbolt 5', cable(TB5, 2, 40), 23, 46],
    ['OCuLink', oculink, 27, 53],
  ])('keeps of pure transfers over %s what was measured, within 4 points', (_, link, ofGen4, ofGen3) => {
    const copy = { toDeviceBytes: 1e9 }
    expect(Math.abs(100 - drop(copy, link, slot(16, 16)) - ofGen4)).toBeLessThanOrEqual(4)
    expect(Math.abs(100 - drop(copy, link, slot(16, 8)) - ofGen3)).toBeLessThanOrEqual(4)
  })

  // The one free number of a game, megabytes over the link for each 10 ms on the GPU, is set on its slowest row.
  const games4090 = { flops: 0.8e12, toDeviceBytes: 9.2e6 }
  const games5090 = { flops: 0.8e12, toDeviceBytes: 8.55e6 }

  it.each([
    ['RTX 4090 games, 3.0 x4', games4090, slot(4, 8), slot(16, 16), [17, 21]],
    ['RTX 4090 games, 3.0 x8', games4090, slot(8, 8), slot(16, 16), [7, 7]],
    ['RTX 4090 games, 3.0 x16', games4090, slot(16, 8), slot(16, 16), [2, 2]],
    ['RTX 5090 games, 3.0 x8', games5090, slot(8, 8), slot(16, 32), [10, 10]],
    ['RTX 5090 games, 3.0 x16', games5090, slot(16, 8), slot(16, 32), [4, 4]],
    ['RTX 5090 games, 4.0 x8', games5090, slot(8, 16), slot(16, 32), [4, 4]],
    ['RTX 5090 games, 4.0 x16', games5090, slot(16, 16), slot(16, 32), [1, 1]],
  ])('drops within 2.5 points of TechPowerUp on %s', (_, work, link, native, [low, high]) => {
    expect(drop(work, link, native)).toBeGreaterThanOrEqual(low! - 2.5)
    expect(drop(work, link, native)).toBeLessThanOrEqual(high! + 2.5)
  })

  // macfinder's ranges; nothing was fitted to them.
  it.each([
    ['Thunderbolt 3', cable(TB3, 2, 20), 20, 30],
    ['Thunderbolt 2', cable(TB2, 2, 10), 20, 40],
    ['Thunderbolt 1', cable(TB1, 1, 10), 20, 50],
  ])('puts the same games on %s where users put them', (_, link, low, high) => {
    expect(drop(games4090, link, slot(16, 16))).toBeGreaterThanOrEqual(low)
    expect(drop(games4090, link, slot(16, 16))).toBeLessThanOrEqual(high)
  })

  // Llama 8B Q4 on an RTX 4090, tokens per second: 142 in a slot, 138 OCuLink, 121 TB4, 119 USB4 (localaimaster).
  // Bytes per token were set on the OCuLink row, round trips per token on the TB4 row; USB4 is a prediction.
  const decode = { vramBytes: 7.04e6 * 1000, toDeviceBytes: 1.77e6, roundTrips: 20 }

  it.each([
    ['OCuLink', oculink, 3],
    ['Thunderbolt 4', cable(TB4, 2, 20), 15],
    ['USB4', cable(TB4, 2, 20), 16],
  ])('drops VRAM-bound decoding within 2 points of what was measured on %s', (_, link, measured) => {
    const prediction = predictEfficiency(decode, gpu, link, slot(16, 16))!
    expect(prediction.onLink.boundBy).toBe('vram')
    expect(Math.abs(100 * (1 - prediction.efficiency) - measured)).toBeLessThanOrEqual(2)
  })

  it("bounds the loss of Thunderbolt 5 against OCuLink near the worst of 12 games, 14 % (Tom's Hardware 2025)", () => {
    const worst = drop({ toDeviceBytes: 1e9 }, cable(TB5, 2, 40), oculink)
    expect(Math.abs(worst - 14)).toBeLessThanOrEqual(2)
  })
})

describe('predictEfficiency', () => {
  it('leaves compute-bound and VRAM-bound work alone on any cable', () => {
    for (const work of [{ flops: 1e12 }, { vramBytes: 1e9 }]) {
      expect(predictEfficiency(work, gpu, cable(TB1, 1, 10))?.efficiency).toBe(1)
    }
  })

  it('names what binds the work', () => {
    const link = cable(TB4, 2, 20)
    expect(workTime({ flops: 1e12 }, gpu, link)?.boundBy).toBe('compute')
    expect(workTime({ vramBytes: 1e9, flops: 1 }, gpu, link)?.boundBy).toBe('vram')
    expect(workTime({ fromDeviceBytes: 1e9, flops: 1e12 }, gpu, link)?.boundBy).toBe('link')
    expect(workTime({ roundTrips: 1e4, flops: 1e12 }, gpu, link)?.boundBy).toBe('latency')
  })

  it('takes the longer of compute and VRAM traffic, which run side by side', () => {
    const time = workTime({ flops: 0.8e12, vramBytes: 6e9 }, gpu, {})
    expect(time).toMatchObject({ computeMs: 10, vramMs: 6, totalMs: 10 })
  })

  it('hides transfers behind compute as far as they overlap', () => {
    const work = { flops: 0.8e12, toDeviceBytes: 1e7 }
    const link = each(1, 0)
    expect(workTime(work, gpu, link)?.totalMs).toBeCloseTo(20)
    expect(workTime({ ...work, overlap: 0.5 }, gpu, link)?.totalMs).toBeCloseTo(15)
    expect(workTime({ ...work, overlap: 1 }, gpu, link)?.totalMs).toBeCloseTo(10)
  })

  it('takes the link of a report as it comes', () => {
    const hop = { id: 'gpu', kind: 'real', lanes: 4, gtPerSecond: 16 } as const
    const { effectiveGBps } = linkReport({ hops: [hop] })
    const prediction = predictEfficiency({ toDeviceBytes: 1e9 }, gpu, { linkGBps: effectiveGBps })
    expect(prediction?.efficiency).toBeCloseTo(0.25)
  })

  it('is undefined while a rate that the work depends on is unknown, and for no work', () => {
    const link = cable(TB4, 2, 20)
    expect(predictEfficiency({ flops: 1 }, {}, link)).toBeUndefined()
    expect(predictEfficiency({ vramBytes: 1 }, { flops: 1 }, link)).toBeUndefined()
    expect(predictEfficiency({ toDeviceBytes: 1 }, gpu, {})).toBeUndefined()
    expect(predictEfficiency({ fromDeviceBytes: 1 }, gpu, { linkGBps: { toDevice: 1 } })).toBeUndefined()
    expect(predictEfficiency({ roundTrips: 1 }, gpu, { linkGBps: {} })).toBeUndefined()
    expect(predictEfficiency({}, gpu, link)).toBeUndefined()
  })

  it('does not need the rates that the work does not depend on', () => {
    expect(predictEfficiency({ flops: 1e12 }, { flops: 1e12 }, {})?.efficiency).toBe(1)
  })

  it.each([
    [{ flops: -1 }, gpu, RangeError],
    [{ toDeviceBytes: Number.NaN }, gpu, TypeError],
    [{ overlap: 1.1 }, gpu, RangeError],
    [{ flops: 1 }, { flops: 0 }, RangeError],
    [{ flops: 1 }, { flops: 1, memoryGBps: Infinity }, RangeError],
  ])('refuses %o on %o', (work, rates, error) => {
    expect(() => predictEfficiency(work, rates, cable(TB4, 2, 20))).toThrow(error)
  })
})
