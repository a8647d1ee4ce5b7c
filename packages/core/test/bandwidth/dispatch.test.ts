import { describe, expect, it } from 'vitest'
import { breakEvenBatch, breakEvenKernelUs, dispatchOverheadShare, transferTimeMs } from '../../src/index.ts'

const least = { dispatchUs: 24, roundTripUs: 30 }
const most = { dispatchUs: 36, roundTripUs: 50 }

describe('dispatchOverheadShare', () => {
  it('puts a 1 ms kernel behind Thunderbolt, waited for each time, at 5 to 8 %', () => {
    expect(dispatchOverheadShare(1000, least)).toBeCloseTo(0.051, 3)
    expect(dispatchOverheadShare(1000, most)).toBeCloseTo(0.079, 3)
  })

  it('falls below 1 % for the same kernel in batches of ten', () => {
    expect(dispatchOverheadShare(1000, most, 10)).toBeLessThan(0.01)
  })

  it('does not vanish in long batches of kernels that are shorter than recording them', () => {
    expect(dispatchOverheadShare(9, { dispatchUs: 36, roundTripUs: 0 }, 1e6)).toBeCloseTo(0.75, 3)
  })

  it.each([
    [() => dispatchOverheadShare(0, least), RangeError],
    [() => dispatchOverheadShare(Number.NaN, least), TypeError],
    [() => dispatchOverheadShare(10, { dispatchUs: -1, roundTripUs: 1 }), RangeError],
    [() => dispatchOverheadShare(10, least, 1.5), RangeError],
    [() => breakEvenKernelUs(0, least), RangeError],
    [() => breakEvenKernelUs(2, least), RangeError],
    [() => breakEvenBatch(1, 10, least), RangeError],
  ])('refuses bad numbers (%#)', (call, error) => {
    expect(call).toThrow(error)
  })
})

describe('break-even', () => {
  it('needs 5 to 9 ms for 1 % without batching', () => {
    expect(breakEvenKernelUs(0.01, least)).toBeCloseTo(5346)
    expect(breakEvenKernelUs(0.01, most)).toBeCloseTo(8514)
  })

  it('needs at most ten dispatches of 1 ms for 1 %', () => {
    expect(breakEvenBatch(0.01, 1000, least)).toBe(6)
    expect(breakEvenBatch(0.01, 1000, most)).toBe(9)
  })

  it('is undefined when recording takes so long that no batch helps', () => {
    expect(breakEvenBatch(0.01, 10, most)).toBeUndefined()
  })

  const shares = [0.001, 0.01, 0.05, 0.3, 0.8]
  const batches = [1, 2, 7, 100]
  const costs = [least, most, { dispatchUs: 95, roundTripUs: 0 }, { dispatchUs: 0, roundTripUs: 40 }]
  const grid = shares.flatMap((share) => costs.flatMap((cost) => batches.map((batch) => ({ share, cost, batch }))))

  it.each(grid)('is where the overhead meets the share: $share, $cost, batch $batch', ({ share, cost, batch }) => {
    const kernelUs = breakEvenKernelUs(share, cost, batch)
    expect(dispatchOverheadShare(kernelUs, cost, batch)).toBeCloseTo(share, 9)
    const enough = breakEvenBatch(share, kernelUs, cost)
    expect(enough).toBe(batch)
  })
})

describe('transferTimeMs', () => {
  it('is bytes over rate, plus the latency', () => {
    expect(transferTimeMs(1e9, 2.5)).toBeCloseTo(400)
    expect(transferTimeMs(0, 2.5, 0.04)).toBeCloseTo(0.04)
  })

  it('is undefined at an unknown rate', () => {
    expect(transferTimeMs(1e9, undefined)).toBeUndefined()
  })

  it('refuses negative bytes, a rate of 0 and NaN', () => {
    expect(() => transferTimeMs(-1, 2)).toThrow(RangeError)
    expect(() => transferTimeMs(1, 0)).toThrow(RangeError)
    expect(() => transferTimeMs(Number.NaN, 2)).toThrow(TypeError)
  })
})
