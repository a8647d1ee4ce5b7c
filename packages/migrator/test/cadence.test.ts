import { describe, expect, it } from 'vitest'
import { checkpointInterval } from '../src/run/cadence.ts'
import { bench } from './helpers/bench.ts'
import { Mixer } from './helpers/mixer.ts'

const hour = 3_600_000
const question = { costMs: 2, totalMs: 20, losses: 0, observedMs: 0, ceiling: 0.035 }

describe('the interval between checkpoints', () => {
  it("is Young's: 2 ms and a loss in 8 hours give 10.7 s", () => {
    expect(checkpointInterval(question)).toBeCloseTo(10_733, -1)
  })

  it('shrinks where losses are frequent: one in ten minutes gives a few seconds', () => {
    const flaky = checkpointInterval({ ...question, losses: 6, observedMs: hour })
    expect(flaky).toBeGreaterThan(1_500)
    expect(flaky).toBeLessThan(2_200)
  })

  it('never breaks the ceiling, however frequent the losses are', () => {
    const interval = checkpointInterval({ ...question, costMs: 400, losses: 1_000, observedMs: hour })
    expect(400 / interval).toBeLessThanOrEqual(0.035)
  })

  it('leaves the link alone for half of the time', () => {
    expect(checkpointInterval({ ...question, totalMs: 30_000 })).toBe(60_000)
  })
})

describe('a workload with the default cadence', () => {
  it('loses at most 1 % of its time to checkpoints on the simulator', async () => {
    await using machine = await bench({ checkpointIntervalMs: undefined })
    const { clock, migrator, events } = machine
    const mixer = new Mixer({ clock, words: 64, steps: 60_000 })
    const begun = clock.now()
    const run = migrator.run(mixer)
    await machine.until(run.finished)
    const paused = events.reduce((sum, event) => sum + (event.type === 'checkpoint-saved' ? event.pauseMs : 0), 0)
    expect(events.filter(({ type }) => type === 'checkpoint-saved').length).toBeGreaterThan(3)
    expect(paused / (clock.now() - begun)).toBeLessThanOrEqual(0.01)
  })
})
