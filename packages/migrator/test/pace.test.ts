import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { VirtualClock } from '@egpu/driver-sim'
import { CheckpointManager, memoryStore, Pace } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { noise, stateOf } from './helpers/states.ts'

describe('Pace', () => {
  it('lets no more through than its limit, over any second', async () => {
    const clock = new VirtualClock()
    const pace = new Pace({ clock, bytesPerSecond: 1_000 })
    const at: number[] = []
    const sending = (async () => {
      for (let i = 0; i < 50; i += 1) {
        await pace.take(100)
        at.push(clock.now())
      }
    })()
    await clock.runUntil(sending)
    expect(at.at(-1)).toBeCloseTo(4_900, 0)
    for (const from of at) expect(at.filter((ms) => ms > from && ms <= from + 1_000).length).toBeLessThanOrEqual(11)
  })

  it('leaves nothing behind of waits that are over, however long the device lives', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    let now = 0
    const clock = { now: () => now, sleep: async (ms: number) => void (now += ms) }
    const pace = new Pace({ clock, bytesPerSecond: 1_000 })
    const { signal } = new AbortController()
    const usedAfter = async (waits: number): Promise<number> => {
      for (let i = 0; i < waits; i += 1) await pace.take(1_000, { signal })
      await new Promise((resolve) => setImmediate(resolve))
      collect()
      return getHeapStatistics().used_heap_size
    }
    const before = await usedAfter(1_000)
    expect((await usedAfter(100_000)) - before).toBeLessThan(4e6)
  })

  it('halves its rate each time the link counts more errors, and takes that back in calm times', async () => {
    const clock = new VirtualClock()
    const pace = new Pace({ clock, bytesPerSecond: 1_600 })
    pace.linkErrors(5)
    expect(pace.bytesPerSecond).toBe(1_600)
    pace.linkErrors(6)
    expect(pace.bytesPerSecond).toBe(800)
    for (let errors = 7; errors < 30; errors += 1) pace.linkErrors(errors)
    expect(pace.bytesPerSecond).toBe(100)
    await clock.advance(10_000)
    expect(pace.bytesPerSecond).toBe(200)
    await clock.advance(30_000)
    expect(pace.bytesPerSecond).toBe(1_600)
    // A counter that began anew says nothing.
    pace.linkErrors(0)
    expect(pace.bytesPerSecond).toBe(1_600)
  })

  it('without a limit falls to half of what was seen once errors come', async () => {
    const clock = new VirtualClock()
    const pace = new Pace({ clock })
    expect(pace.bytesPerSecond).toBe(Infinity)
    pace.observe(2_000, 1_000)
    pace.linkErrors(0)
    pace.linkErrors(1)
    expect(pace.bytesPerSecond).toBe(1_000)
  })

  it('holds a save to its rate, and a save that is no longer wanted ends at once', async () => {
    const clock = new VirtualClock()
    const manager = new CheckpointManager(memoryStore(), { clock })
    const pace = new Pace({ clock, bytesPerSecond: 1_000 })
    const token = await manager.acquire('job')
    await clock.runUntil(manager.save('job', stateOf(1, { part: noise(5_000, 1) }), { token, pace }))
    expect(clock.now()).toBeGreaterThan(4_700)
    const stop = new AbortController()
    const saving = manager.save('job', stateOf(2, { part: noise(5_000, 1) }), { token, pace, signal: stop.signal })
    stop.abort(new Error('the cable is out'))
    await expect(clock.runUntil(saving)).rejects.toThrow('the cable is out')
    expect(await manager.list('job')).toHaveLength(1)
  })

  it('refuses a rate that cannot be', () => {
    for (const bytesPerSecond of [0, -1, NaN]) {
      expect(() => new Pace({ clock: new VirtualClock(), bytesPerSecond })).toThrow(TypeError)
    }
  })
})
