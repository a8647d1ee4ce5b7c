import { describe, expect, it } from 'vitest'
import { egpuOrCloud, type EGpuOrCloudQuestion } from '../../src/index.ts'

const question: EGpuOrCloudQuestion = {
  work: { cloudHours: 1000, memoryBytes: 20e9, maxLatencyMs: 50 },
  local: {
    hardwarePrice: 1200,
    powerWatts: 500,
    pricePerKwh: 0.4,
    relativeSpeed: 0.5,
    memoryBytes: 24e9,
    latencyMs: 0.05,
  },
  cloud: { pricePerHour: 2, memoryBytes: 80e9, latencyMs: 30 },
}

function ask(changes: { [Side in keyof EGpuOrCloudQuestion]?: EGpuOrCloudQuestion[Side] }) {
  return egpuOrCloud({
    work: { ...question.work, ...changes.work },
    local: { ...question.local, ...changes.local },
    cloud: { ...question.cloud, ...changes.cloud },
  })
}

describe('egpuOrCloud', () => {
  it('shows its arithmetic', () => {
    const advice = egpuOrCloud(question)
    expect(advice.recommendation).toBe('egpu')
    expect(advice.egpu.hours).toBe(2000)
    expect(advice.egpu.pricePerHour).toBeCloseTo(0.2)
    expect(advice.egpu.total).toBeCloseTo(1600)
    expect(advice.cloud).toMatchObject({ hours: 1000, pricePerHour: 2, total: 2000, fits: true })
    expect(advice.breakEvenCloudHours).toBeCloseTo(750)
    expect(advice.unknown).toEqual([])
  })

  it('changes its mind at the break-even', () => {
    expect(ask({ work: { cloudHours: 751 } }).recommendation).toBe('egpu')
    expect(ask({ work: { cloudHours: 749 } }).recommendation).toBe('cloud')
    expect(ask({ work: { cloudHours: 750 } }).recommendation).toBe('egpu')
  })

  it('has no break-even when own power costs more than rent', () => {
    const advice = ask({ cloud: { pricePerHour: 0.3 } })
    expect(advice.breakEvenCloudHours).toBeUndefined()
    expect(advice.recommendation).toBe('cloud')
  })

  it('breaks even at once with hardware that is already there', () => {
    expect(ask({ local: { hardwarePrice: 0 } }).breakEvenCloudHours).toBe(0)
  })

  it.each([
    ['cloud', { local: { memoryBytes: 16e9 } }],
    ['egpu', { cloud: { latencyMs: 80, pricePerHour: 0.01 } }],
    ['neither', { work: { memoryBytes: 90e9 } }],
  ] as const)('says %s when memory or latency decide, whatever the price', (expected, changes) => {
    const advice = ask(changes)
    expect(advice.recommendation).toBe(expected)
    expect(advice.reason).toMatch(/GPU memory|round trip/)
  })

  it.each([
    ['local.relativeSpeed', { local: { relativeSpeed: undefined } }],
    ['cloud.pricePerHour', { cloud: { pricePerHour: undefined } }],
    ['local.memoryBytes', { local: { memoryBytes: undefined } }],
    ['cloud.latencyMs', { cloud: { latencyMs: undefined } }],
    ['work.cloudHours', { work: { cloudHours: undefined } }],
  ] as const)('recommends nothing and names %s when it is not known', (name, changes) => {
    const advice = ask(changes)
    expect(advice.recommendation).toBeUndefined()
    expect(advice.unknown).toEqual([name])
  })

  it('does not ask for prices when only one of the two can do it', () => {
    const advice = ask({ local: { memoryBytes: 1e9, hardwarePrice: undefined } })
    expect(advice.recommendation).toBe('cloud')
    expect(advice.egpu.total).toBeUndefined()
  })

  it.each([
    [{ work: { cloudHours: Number.NaN } }, TypeError],
    [{ work: { cloudHours: -1 } }, RangeError],
    [{ local: { relativeSpeed: 0 } }, RangeError],
    [{ local: { powerWatts: Infinity } }, RangeError],
    [{ cloud: { pricePerHour: -2 } }, RangeError],
    [{ cloud: { memoryBytes: 0 } }, RangeError],
  ])('refuses %o', (changes, error) => {
    expect(() => ask(changes)).toThrow(error)
  })
})
