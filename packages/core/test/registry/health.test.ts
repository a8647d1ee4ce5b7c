import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { healthComponents, levelOf, scoreHealth } from '../../src/registry/health-score.ts'
import { HealthTracker } from '../../src/registry/health-tracker.ts'
import type { HealthSample } from '../../src/types/health.ts'

const hour = 3_600_000
const day = 24 * hour
const inputs = { sample: undefined, errors: undefined, faultsAtMs: undefined, nowMs: 0 }
const thermal = (temperatureCelsius: number) =>
  healthComponents({ ...inputs, sample: { atMs: 0, temperatureCelsius, temperatureLimitCelsius: 90 } }).thermal

describe('the health score', () => {
  it('knows nothing before anything was read', () => {
    expect(scoreHealth(inputs)).toEqual({ score: undefined, confidence: 0, components: {}, level: 'unknown' })
  })

  it('falls with the headroom to the limit', () => {
    expect([60, 75, 90, 95, 100, 120].map(thermal)).toEqual([100, 100, 40, 20, 0, 0])
  })

  it('does not judge a temperature without its limit, nor memory without its size', () => {
    const sample = { atMs: 0, temperatureCelsius: 100, memoryUsedBytes: 5 }
    expect(scoreHealth({ ...inputs, sample })).toMatchObject({ score: undefined, confidence: 0 })
  })

  it('is as low as its sickest part when the others are well', () => {
    const sample = { atMs: 0, linkRatio: 0.5, memoryUsedBytes: 1, memoryTotalBytes: 10 }
    expect(scoreHealth({ ...inputs, sample })).toMatchObject({ score: 50, confidence: 0.4, level: 'degraded' })
  })

  it('remembers a fault for days', () => {
    const after = (nowMs: number) => healthComponents({ ...inputs, faultsAtMs: [0], nowMs }).faultHistory ?? 0
    expect(after(0)).toBeCloseTo(73.8)
    expect(after(3 * day)).toBeCloseTo(100 * 0.738 ** Math.exp(-1))
    expect(after(30 * day)).toBeGreaterThan(99.9)
  })

  it('leaves a level later than it entered it', () => {
    expect([100, 69, 75, 80].map((score, index) => levelOf(score, index < 2 ? 'good' : 'degraded'))).toEqual([
      'good',
      'degraded',
      'degraded',
      'good',
    ])
    expect([39, 69, 70].map((score) => levelOf(score, 'critical'))).toEqual(['critical', 'critical', 'degraded'])
  })

  it('never scores lower for knowing less, only with less confidence', () => {
    const optional = (max: number) => fc.option(fc.double({ min: 0, max, noNaN: true }), { nil: undefined })
    const sample = fc.record({
      atMs: fc.constant(0),
      temperatureCelsius: optional(120),
      temperatureLimitCelsius: optional(110),
      memoryUsedBytes: optional(100),
      memoryTotalBytes: optional(100),
      linkRatio: optional(1),
    })
    const fields = ['temperatureCelsius', 'memoryUsedBytes', 'linkRatio'] as const
    fc.assert(
      fc.property(sample, fc.constantFrom(...fields), (full, field) => {
        const whole = scoreHealth({ ...inputs, sample: full })
        const less = scoreHealth({ ...inputs, sample: { ...full, [field]: undefined } })
        expect(less.score ?? 100).toBeGreaterThanOrEqual(whole.score ?? 0)
        expect(less.confidence).toBeLessThanOrEqual(whole.confidence)
        expect(whole.score ?? 0).toBeGreaterThanOrEqual(0)
        expect(whole.score ?? 100).toBeLessThanOrEqual(100)
      }),
    )
  })
})

describe('the health tracker', () => {
  const cool: HealthSample = { atMs: 0, temperatureCelsius: 60, temperatureLimitCelsius: 90 }

  it('counts what error totals gained, forgets it over time, and survives a reset of the totals', () => {
    const tracker = new HealthTracker()
    const errors = (nowMs: number) => tracker.current(nowMs).components.errors
    tracker.sample('bus', { atMs: 0, correctableErrors: 1_000 }, 0)
    expect(errors(0)).toBe(100)
    tracker.sample('bus', { atMs: 0, correctableErrors: 1_020 }, 0)
    expect(errors(0)).toBeCloseTo(50)
    expect(errors(15 * 60_000)).toBeCloseTo(70.7, 1)
    expect(errors(day)).toBeCloseTo(100)
    tracker.sample('bus', { atMs: 0, correctableErrors: 20 }, day)
    expect(errors(day)).toBeCloseTo(50)
  })

  it('does not add up errors that two sources count', () => {
    const tracker = new HealthTracker()
    for (const source of ['bus', 'cuda']) {
      tracker.sample(source, { atMs: 0, fatalErrors: 0 }, 0)
      tracker.sample(source, { atMs: 0, fatalErrors: 1 }, 0)
    }
    expect(tracker.current(0).components.errors).toBeCloseTo(25)
  })

  it('worsens at once and recovers after a while only', () => {
    const tracker = new HealthTracker()
    tracker.sample('bus', cool, 0)
    expect(tracker.sample('bus', { ...cool, temperatureCelsius: 95 }, 1_000)?.after.level).toBe('critical')
    expect(tracker.sample('bus', cool, 2_000)?.after).toMatchObject({ score: 100, level: 'critical' })
    expect(tracker.sample('bus', cool, 31_000)?.after.level).toBe('good')
  })

  it('tells what is news and nothing else', () => {
    const tracker = new HealthTracker()
    expect(tracker.sample('bus', cool, 0)).toMatchObject({ before: { level: 'unknown' }, after: { level: 'good' } })
    expect(tracker.sample('bus', { ...cool, temperatureCelsius: 76 }, 1)).toBeUndefined()
    expect(tracker.sample('bus', { ...cool, temperatureCelsius: 79 }, 2)?.after.score).toBe(84)
  })

  it('takes what is no number as not read', () => {
    const tracker = new HealthTracker()
    tracker.sample('bus', { ...cool, temperatureCelsius: Number.NaN }, 0)
    expect(tracker.current(0).components.thermal).toBeUndefined()
  })
})
