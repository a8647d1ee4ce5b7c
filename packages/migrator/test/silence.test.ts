import type { Clock, HealthSample } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { Forecasts } from '../src/predictor/forecasts.ts'
import { SilenceWatch } from '../src/predictor/silence-watch.ts'
import { bench } from './helpers/bench.ts'
import type { Bench } from './helpers/bench.ts'
import { SteadyWork } from './helpers/steady-work.ts'

/** From a moment on the driver's reading of device A never comes back. */
function silenceable({ driver }: Bench): { hang(): void } {
  const { health } = driver
  if (health === undefined) throw new Error('the simulator reads health')
  const sample = health.sample.bind(health)
  let isHung = false
  health.sample = (key, options) =>
    isHung && key.endsWith('A') ? new Promise<HealthSample>(() => undefined) : sample(key, options)
  return { hang: () => void (isHung = true) }
}

describe('a device whose readings stop', () => {
  it('is suspected although nothing new is heard of it, and work leaves it', async () => {
    await using machine = await bench({ boxes: 2, healthIntervalMs: 5_000 })
    const { clock, migrator } = machine
    const hands = silenceable(machine)
    const run = migrator.run(new SteadyWork({ clock }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(300_000)
    expect(run.where?.name).toBe('A')
    hands.hang()
    await clock.advance(30_000)
    expect(run.where?.name).toBe('B')
    expect(machine.story()).toEqual([
      'steady started A -> B (device-failing)',
      'steady completed A -> B (device-failing)',
    ])
  })

  it('is not suspected where nobody asks any more', async () => {
    await using machine = await bench({ boxes: 2, healthIntervalMs: 5_000 })
    const { clock, migrator, manager } = machine
    const run = migrator.run(new SteadyWork({ clock }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(300_000)
    await machine.until(manager.stopMonitoring())
    await clock.advance(300_000)
    await machine.until(manager.startMonitoring({ healthIntervalMs: 5_000 }))
    await clock.advance(300_000)
    expect(run.where?.name).toBe('A')
    expect(machine.story()).toEqual([])
  })
})

describe('SilenceWatch', () => {
  /** A process that stands still for a while now and then: its timers fire late. */
  async function watched(
    stallsMs: readonly number[],
    hangsAfter: number,
  ): Promise<{ suspectedAt: number | undefined }> {
    let now = 0
    let looks = 0
    const over = new AbortController()
    const clock: Clock = {
      now: () => now,
      sleep: async (ms) => {
        await Promise.resolve()
        now += ms + (stallsMs[looks] ?? 0)
        looks += 1
        if (looks > 100) over.abort()
        // Readings come in time, as far as this process can tell.
        if (looks % 5 === 0 && looks < hangsAfter) forecasts.read('gpu', 'sim', { atMs: now }, now)
      },
    }
    const forecasts = new Forecasts()
    let suspectedAt: number | undefined
    const watch = new SilenceWatch({
      clock,
      forecasts,
      isListening: () => !over.signal.aborted,
      isAsked: () => true,
      onNews: (_id, { alarm }) => {
        if (alarm) suspectedAt ??= looks
      },
    })
    forecasts.read('gpu', 'sim', { atMs: 0 }, 0)
    watch.heard()
    await new Promise<void>((resolve) => over.signal.addEventListener('abort', () => resolve()))
    watch.stop()
    return { suspectedAt }
  }

  it('holds its own standing still against nobody', async () => {
    const stalls = Array.from({ length: 100 }, () => 0)
    stalls[62] = 20_000
    expect(await watched(stalls, Infinity)).toEqual({ suspectedAt: undefined })
    const { suspectedAt } = await watched(stalls, 60)
    expect(suspectedAt).toBeGreaterThan(62)
  })
})
