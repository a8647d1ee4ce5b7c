import { describe, expect, it } from 'vitest'
import { Forecasts } from '../src/predictor/forecasts.ts'

const minute = 60_000

describe('Forecasts', () => {
  it('keeps two drivers that count the same errors differently apart', () => {
    const forecasts = new Forecasts()
    for (let i = 0; i < 60; i += 1) {
      const atMs = i * 5_000
      expect(forecasts.read('gpu', 'one', { atMs, correctableErrors: 400 }, atMs)).toBeUndefined()
      expect(forecasts.read('gpu', 'other', { atMs, correctableErrors: 3 }, atMs)).toBeUndefined()
    }
    expect(forecasts.isAlarmed('gpu')).toBe(false)
    for (let i = 60; i < 66; i += 1) {
      const atMs = i * 5_000
      forecasts.read('gpu', 'one', { atMs, correctableErrors: 400 }, atMs)
      forecasts.read('gpu', 'other', { atMs, correctableErrors: 3 + (i - 59) * 30 }, atMs)
    }
    expect(forecasts.isAlarmed('gpu')).toBe(true)
  })

  it('follows a driver whose clock is set, back as well as forth', () => {
    const forecasts = new Forecasts()
    let now = 0
    const read = (skewMs: number, correctableErrors: number): void => {
      now += 5_000
      forecasts.read('gpu', 'one', { atMs: now + skewMs, correctableErrors }, now)
    }
    for (let i = 0; i < 30; i += 1) read(1e12, 0)
    for (let i = 0; i < 30; i += 1) read(1e12 - 60 * minute, 0)
    expect(forecasts.isAlarmed('gpu')).toBe(false)
    // Readings still count: what was read before the clock was set is older than none of them.
    for (let i = 1; i < 6; i += 1) read(1e12 - 60 * minute, 30 * i)
    expect(forecasts.isAlarmed('gpu')).toBe(true)
  })

  it('forgets what was read of a device that is gone, not that it failed', () => {
    const weak = (forecasts: Forecasts): number => {
      forecasts.read('gpu', 'one', { atMs: 0, nonfatalErrors: 0 }, 0)
      forecasts.read('gpu', 'one', { atMs: 5_000, nonfatalErrors: 1 }, 5_000)
      return forecasts.of('gpu')?.probability ?? 0
    }
    const fresh = new Forecasts()
    const scarred = new Forecasts()
    scarred.failed('gpu', -2 * minute, -minute)
    scarred.gone('gpu')
    expect(weak(scarred)).toBeGreaterThan(weak(fresh))
    fresh.gone('gpu')
    expect(fresh.of('gpu')).toBeUndefined()
  })

  it('leaves out a reading without a time', () => {
    const forecasts = new Forecasts()
    expect(forecasts.read('gpu', 'one', { atMs: NaN, fatalErrors: 1 }, 0)).toBeUndefined()
    expect(forecasts.of('gpu')).toBeUndefined()
  })
})
