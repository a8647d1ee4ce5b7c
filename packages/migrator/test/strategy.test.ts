import type { EGpuDevice } from '@egpu/core'
import { FailurePredictor, MigrationStrategy } from '@egpu/migrator'
import type { Forecast, MigrationPolicy, WorkloadView } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { lostWork, periodicOnly } from './helpers/lived.ts'
import { Mixer } from './helpers/mixer.ts'
import { SteadyWork } from './helpers/steady-work.ts'
import { trace } from './helpers/traces.ts'

const view: WorkloadView = {
  id: 'w',
  priority: 0,
  where: undefined,
  progress: 1,
  savedProgress: undefined,
  unsavedMs: 20_000,
  intervalMs: 60_000,
  pauseMs: 5,
  saveMs: 400,
  moveMs: 1_000,
  slowdownElsewhere: 1,
}
const device = {} as EGpuDevice
const forecast = (probability: number, leadMs?: number): Forecast => ({
  probability,
  confidence: 1,
  alarm: true,
  leadMs,
  signs: [],
})

describe('a device whose health falls', () => {
  it('makes Eager move away and not come back while it is unwell', async () => {
    await using machine = await bench({
      boxes: 2,
      strategy: MigrationStrategy.Eager,
      failBackAfterMs: 200,
      healthIntervalMs: 100,
    })
    const { clock, migrator, driver } = machine
    const run = migrator.run(new Mixer({ clock, steps: 100_000 }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    driver.machine.gpu('gpu-A').slowFan(0)
    driver.machine.gpu('gpu-A').heat(110)
    await clock.advance(5_000)
    expect(run.where?.name).toBe('B')
    expect(machine.story()[1]).toBe('mixer completed A -> B (device-failing)')
  })

  it('makes Lazy take a checkpoint and stay', () => {
    expect(MigrationStrategy.Lazy.onWarning({ kind: 'critical', device, reason: 'hot' }, view)).toBe('checkpoint')
  })
})

describe('Preemptive', () => {
  const answer = (probability: number, more: Partial<WorkloadView> = {}, leadMs?: number) =>
    MigrationStrategy.Preemptive.onWarning(
      { kind: 'predicted', device, reason: 'errors', forecast: forecast(probability, leadMs) },
      { ...view, ...more },
    )

  it('goes from saving more often to moving as a failure gets likelier', () => {
    expect(answer(0.02)).toBe('shorten')
    expect(answer(0.9)).toBe('move')
  })

  it('stays where everything else is far slower, and saves', () => {
    expect(answer(0.9, { slowdownElsewhere: 40 })).toBe('shorten')
    expect(answer(0.9, { slowdownElsewhere: Infinity })).toBe('shorten')
  })

  it('saves once where saving often costs more than the danger', () => {
    const dear = { slowdownElsewhere: 40, pauseMs: 10_000, saveMs: 12_000, intervalMs: 600_000 }
    expect(answer(0.5, { ...dear, unsavedMs: 200_000 }, 20_000)).toBe('checkpoint')
    expect(answer(0.001, { ...dear, unsavedMs: 100 })).toBe('wait')
  })

  it('does not begin a move that the device will not outlive', () => {
    expect(answer(0.95, { moveMs: 600_000, saveMs: 300, unsavedMs: 30_000 }, 5_000)).not.toBe('move')
  })

  it('always leaves what is announced to go', () => {
    expect(MigrationStrategy.Preemptive.onWarning({ kind: 'leaving', device, reason: 'eject' }, view)).toBe('move')
  })

  it('evacuates in the minutes between the first errors and the loss', async () => {
    // Uncorrected errors 8.5 minutes and 72 seconds before the end, as a runbook of an eGPU has it.
    const predictor = new FailurePredictor()
    let errors = 0
    let alarmAt = Infinity
    for (let atMs = 0; atMs < 1_200_000; atMs += 5_000) {
      if (atMs === 1_200_000 - 510_000 || atMs === 1_200_000 - 70_000) errors += 1
      const { alarm } = predictor.read({ atMs, nonfatalErrors: errors, correctableErrors: 0 })
      if (alarm) alarmAt = Math.min(alarmAt, atMs)
    }
    expect(1_200_000 - alarmAt).toBeGreaterThanOrEqual(60_000)
  })

  it.each(['cable-wiggle', 'supply-sag'] as const)(
    'loses less than Lazy and than saving alone to a %s',
    async (family) => {
      const lived = trace(family, 9_000_001)
      const [preemptive, lazy, periodic] = [
        await lostWork(lived, MigrationStrategy.Preemptive),
        await lostWork(lived, MigrationStrategy.Lazy),
        await lostWork(lived, periodicOnly),
      ]
      expect(preemptive).toBeLessThan(lazy)
      expect(preemptive).toBeLessThan(periodic)
    },
  )
})

describe('LoadBalanced', () => {
  it('spreads work over a device that comes later, once, and then leaves it alone', async () => {
    await using machine = await bench({
      boxes: 2,
      strategy: MigrationStrategy.LoadBalanced,
      checkpointIntervalMs: 5_000,
    })
    const { clock, migrator, boxes } = machine
    boxes[1]?.yank()
    const works = Array.from({ length: 6 }, (_, i) => new SteadyWork({ clock, id: `w${i}` }))
    const runs = works.map((work) => migrator.run(work))
    await clock.advance(30_000)
    expect(runs.every(({ where }) => where?.name === 'A')).toBe(true)
    boxes[1]?.plug()
    await clock.advance(120_000)
    const onB = runs.filter(({ where }) => where?.name === 'B').length
    expect([2, 3]).toContain(onB)
    const moves = machine.story().filter((line) => line.includes('completed')).length
    await clock.advance(600_000)
    expect(machine.story().filter((line) => line.includes('completed'))).toHaveLength(moves)
    expect(moves).toBeLessThanOrEqual(3)
  })

  it('leaves work that is nearly done where it is', () => {
    const review: MigrationPolicy['review'] = (here, others, of) =>
      MigrationStrategy.LoadBalanced.review?.(here, others, of)
    const offer = (id: string, finishMs: number, moveMs: number) => ({ target: { id } as never, finishMs, moveMs })
    expect(review?.(offer('here', 1_000, 0), [offer('there', 100, 2_000)], view)).toBeUndefined()
    expect(review?.(offer('here', 100_000, 0), [offer('there', 50_000, 2_000)], view)).toBe('there')
    expect(review?.(offer('here', 100_000, 0), [offer('there', 95_000, 0)], view)).toBeUndefined()
  })
})

describe('a strategy of one’s own', () => {
  it('that throws or names nonsense when asked to review changes nothing', async () => {
    const reviews: string[] = []
    const strategy: MigrationPolicy = {
      name: 'odd',
      onWarning: () => 'wait',
      reviewEveryMs: 1_000,
      review: (here) => {
        reviews.push(here.target.name)
        if (reviews.length > 2) throw new Error('odd')
        return 'the moon'
      },
    }
    await using machine = await bench({ boxes: 2, strategy })
    const { clock, migrator } = machine
    const run = migrator.run(new SteadyWork({ clock }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(5_500)
    expect(reviews.length).toBeGreaterThanOrEqual(4)
    expect(run.where?.name).toBe('A')
    expect(machine.story()).toEqual([])
  })
})
