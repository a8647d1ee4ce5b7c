import type { DriverEvent } from '@egpu/core/driver'
import { describe, expect, it } from 'vitest'
import { playScenario, randomScenario, seededRandom, simDriver, VirtualClock } from '../src/index.ts'
import type { ScenarioStep } from '../src/index.ts'

async function record(seed: number, steps: readonly ScenarioStep[]): Promise<string[]> {
  const clock = new VirtualClock()
  await using driver = simDriver({
    clock,
    seed,
    enclosures: [
      { id: 'one', plugged: true, gpus: [{}] },
      { id: 'two', plugged: true, gpus: [{}, {}] },
    ],
    timing: { presentAfterMs: 3, readyAfterMs: 4 },
  })
  const trace: string[] = []
  const read = async (events: AsyncIterable<DriverEvent>): Promise<void> => {
    for await (const event of events) trace.push(`${clock.now()} ${JSON.stringify(event)}`)
  }
  const end = new AbortController()
  const reading = read(driver.watch({ signal: end.signal }))
  await clock.runUntil(playScenario(driver.machine, steps))
  await clock.run()
  expect(driver.machine.gpus.map((gpu) => gpu.stage)).toEqual(['ready', 'ready', 'ready'])
  expect((await driver.list()).devices.every((device) => device.link?.downgrade === undefined)).toBe(true)
  end.abort()
  await reading
  return trace
}

describe('scenarios', () => {
  it('are the same, event for event, for the same seed, and others for another', async () => {
    const steps = (seed: number): ScenarioStep[] =>
      randomScenario({ random: seededRandom(seed), enclosures: ['one', 'two'], durationMs: 10_000, disturbances: 12 })
    const first = await record(7, steps(7))
    expect(first.length).toBeGreaterThan(20)
    expect(await record(7, steps(7))).toEqual(first)
    expect(await record(8, steps(8))).not.toEqual(first)
  })

  it('leave every cable plugged in at the end, whatever the seed', async () => {
    for (let seed = 0; seed < 200; seed += 1) {
      const steps = randomScenario({ random: seededRandom(seed), enclosures: ['one', 'two'], durationMs: 1000 })
      await record(seed, steps)
    }
  })

  it('do every step at its time, whatever the order they are given in', async () => {
    const clock = new VirtualClock()
    await using driver = simDriver({ clock, enclosures: [{ id: 'box', plugged: true, gpus: [{ id: 'gpu' }] }] })
    const done = playScenario(driver.machine, [
      { atMs: 300, do: 'plug', enclosure: 'box', port: 'domain4/port1' },
      { atMs: 100, do: 'wedge', gpu: 'gpu' },
      { atMs: 200, do: 'yank', enclosure: 'box' },
    ])
    const stage = (): string => driver.machine.gpu('gpu').stage
    await clock.advance(150)
    expect(stage()).toBe('wedged')
    await clock.advance(100)
    expect(stage()).toBe('absent')
    await clock.runUntil(done)
    expect([stage(), clock.now(), driver.machine.enclosure('box').port]).toEqual(['ready', 300, 'domain4/port1'])
  })

  it('reject with what a step threw', async () => {
    const { machine } = simDriver({ enclosures: [{ id: 'box', gpus: [{ id: 'gpu' }] }] })
    await expect(playScenario(machine, [{ atMs: 0, do: 'wedge', gpu: 'gpu' }])).rejects.toMatchObject({
      code: 'EGPU_DEVICE_NOT_FOUND',
    })
    await expect(playScenario(machine, [{ atMs: 0, do: 'yank', enclosure: 'no' }])).rejects.toThrow(TypeError)
  })
})

describe('seededRandom', () => {
  it('repeats itself for a seed and spreads evenly', () => {
    const draw = (seed: number): number[] => {
      const random = seededRandom(seed)
      return Array.from({ length: 10_000 }, () => random.integer(10))
    }
    expect(draw(1)).toEqual(draw(1))
    expect(draw(1)).not.toEqual(draw(2))
    const counts = Array.from({ length: 10 }, (_, digit) => draw(3).filter((each) => each === digit).length)
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150)
  })

  it('is pinned, so that a seed in a bug report keeps its meaning', () => {
    const random = seededRandom(42)
    expect(random.hex(16)).toMatchInlineSnapshot(`"e0cf84228198b1c6"`)
  })
})
