import type { HealthSample } from '@egpu/core'
import { FailurePredictor, FaultHistory } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { phi } from '../src/predictor/heartbeat-detector.ts'
import { score, usableLeadMs } from './helpers/judge.ts'
import { benignFamilies, precursorFamilies, trace } from './helpers/traces.ts'
import type { Family } from './helpers/traces.ts'

/** Far from the seeds that the detectors were tuned with, 1 to 400. */
const firstSeed = 5_000_000

const scored = (family: Family, traces: number, hours?: number) =>
  score(Array.from({ length: traces }, (_, i) => trace(family, firstSeed + i, hours)))

describe('a failure that announces itself', () => {
  it.each(precursorFamilies)('as %s is foretold in time nearly always', (family) => {
    const { caught, leadsMs } = scored(family, 30)
    expect(caught / 30).toBeGreaterThanOrEqual(0.85)
    expect(Math.min(...leadsMs)).toBeGreaterThanOrEqual(usableLeadMs)
  })
})

describe('a cable that is pulled without a sign', () => {
  it('is not foretold, and nobody pretends that it is', () => {
    expect(scored('yank', 30).caught).toBeLessThanOrEqual(1)
  })
})

describe('an ordinary life', () => {
  it.each(benignFamilies)('of the kind %s sets off at most one alarm a day', (family) => {
    const { falseAlarms, deviceDays } = scored(family, 3, 24)
    expect(falseAlarms / deviceDays).toBeLessThanOrEqual(1)
  })
})

describe('FailurePredictor', () => {
  const calm = (atMs: number, more: Partial<HealthSample> = {}): HealthSample => ({
    atMs,
    temperatureCelsius: 60,
    temperatureLimitCelsius: 90,
    correctableErrors: 0,
    linkRatio: 1,
    ...more,
  })

  it('says little where little can be read, and that it is little', () => {
    const predictor = new FailurePredictor()
    expect(predictor.read({ atMs: 0 })).toMatchObject({ probability: 0, confidence: 0, alarm: false })
    predictor.read({ atMs: 5_000, correctableErrors: 3 })
    const { confidence } = predictor.read({ atMs: 10_000, correctableErrors: 3 })
    expect(confidence).toBeGreaterThan(0)
    expect(confidence).toBeLessThan(0.5)
  })

  it('names the sign, keeps the alarm for half a minute, and calls it off when all is quiet again', () => {
    const predictor = new FailurePredictor()
    let errors = 0
    let atMs = 0
    const step = (more: number) => predictor.read(calm((atMs += 5_000), { correctableErrors: (errors += more) }))
    for (let i = 0; i < 20; i += 1) step(0)
    step(30)
    const alarmed = step(30)
    expect(alarmed).toMatchObject({ alarm: true, signs: [{ signal: 'correctable-errors' }] })
    expect(step(0).alarm).toBe(true)
    for (let i = 0; i < 60; i += 1) step(0)
    expect(step(0)).toMatchObject({ alarm: false })
  })

  it('survives a clock that jumps, either way', () => {
    const predictor = new FailurePredictor()
    for (let i = 0; i < 20; i += 1) predictor.read(calm(i * 5_000))
    expect(predictor.read(calm(-1_000_000)).alarm).toBe(false)
    expect(predictor.read(calm(1e12)).alarm).toBe(false)
    expect(predictor.read(calm(1e12 + 5_000)).alarm).toBe(false)
    expect(predictor.read(calm(Number.NaN)).alarm).toBe(false)
  })

  it('takes silence for a sign once readings used to come regularly', () => {
    const predictor = new FailurePredictor()
    for (let i = 0; i < 30; i += 1) predictor.read(calm(i * 5_000))
    expect(predictor.silence(151_000).alarm).toBe(false)
    expect(predictor.silence(160_000)).toMatchObject({ alarm: true, signs: [{ signal: 'heartbeat' }] })
  })

  it('believes a weak sign more of a device that failed a while ago', () => {
    const fresh = new FailurePredictor()
    const history = new FaultHistory()
    history.fault(0)
    history.fault(1)
    const scarred = new FailurePredictor(history)
    const probabilityOf = (predictor: FailurePredictor): number => {
      predictor.read(calm(1_000, { nonfatalErrors: 0 }))
      return predictor.read(calm(6_000, { nonfatalErrors: 1 })).probability
    }
    expect(probabilityOf(scarred)).toBeGreaterThan(probabilityOf(fresh))
    expect(scarred.read(calm(7_000_000, { nonfatalErrors: 1 })).probability).toBe(0)
  })
})

describe('phi', () => {
  it('is the decimal exponent of the chance that a beat is this late', () => {
    // The normal tail beyond 1, 2 and 3 deviations: 0.1587, 0.02275, 0.00135.
    for (const [deviations, tail] of [
      [1, 0.1587],
      [2, 0.022_75],
      [3, 0.001_35],
    ] as const) {
      expect(phi(100 + 10 * deviations, 100, 10)).toBeCloseTo(-Math.log10(tail), 1)
    }
    expect(phi(0, 100, 10)).toBeCloseTo(0, 5)
  })
})
