import { VirtualClock } from '@egpu/driver-sim'
import { CheckpointManager, memoryStore } from '@egpu/migrator'
import type { Retention } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { CrashFs } from './helpers/crash-fs.ts'
import { noise, readBack, stateOf } from './helpers/states.ts'

const hour = 3_600_000

/** Saves one checkpoint at each of these wall-clock times and tells which are left, newest first. */
async function leftAfter(keep: Partial<Retention>, times: readonly number[], bytes: number = 100): Promise<number[]> {
  const manager = new CheckpointManager(memoryStore(), { clock: new VirtualClock(), keep })
  const token = await manager.acquire('job')
  for (const [progress, ms] of times.entries()) {
    vi.setSystemTime(ms)
    await manager.save('job', stateOf(progress, { part: noise(bytes, progress) }), { token })
  }
  return (await manager.list('job')).map(({ progress }) => progress)
}

describe('which checkpoints stay', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  afterEach(() => void vi.setSystemTime(0))

  it('goes by number', async () => {
    expect(await leftAfter({}, [1, 2, 3, 4, 5])).toEqual([4, 3])
    expect(await leftAfter({ generations: 4 }, [1, 2, 3, 4, 5])).toEqual([4, 3, 2, 1])
  })

  it('goes by age, but the newest two always stay', async () => {
    const keep = { generations: 10, maxAgeMs: 2 * hour }
    expect(await leftAfter(keep, [0, hour, 2 * hour, 3 * hour])).toEqual([3, 2, 1])
    expect(await leftAfter(keep, [0, hour, 100 * hour])).toEqual([2, 1])
  })

  it('goes by size, counting each in full', async () => {
    expect(await leftAfter({ generations: 10, maxBytes: 350 }, [1, 2, 3, 4, 5])).toEqual([4, 3, 2])
    expect(await leftAfter({ generations: 10, maxBytes: 10 }, [1, 2, 3, 4, 5])).toEqual([4, 3])
  })

  it('does not fall for a clock that jumps: what was saved last is the newest, and the newest two stay', async () => {
    const keep = { generations: 10, maxAgeMs: hour }
    // A year ahead, back, and before 1970.
    expect(await leftAfter(keep, [10 * hour, 9_000 * hour, 10 * hour])).toEqual([2, 1, 0])
    expect((await leftAfter(keep, [10 * hour, 11 * hour, 9_000 * hour])).slice(0, 2)).toEqual([2, 1])
    expect(await leftAfter(keep, [10 * hour, -5, 0.5])).toEqual([2, 1, 0])
  })

  it('lets nothing stay for as long as a clock was ahead that was put right since', async () => {
    const ahead = 9_000 * hour
    const times = [ahead, ahead + 1, ahead + 2, 10 * hour, 11 * hour, 12 * hour, 13 * hour]
    expect(await leftAfter({ generations: 100, maxAgeMs: hour }, times)).toEqual([6, 5])
  })

  it('a checkpoint saved under a clock before 1970 can be read', async () => {
    vi.setSystemTime(-5_000)
    const fs = new CrashFs()
    {
      await using store = directoryStore('/store', { fs })
      const manager = new CheckpointManager(store, { clock: new VirtualClock() })
      await manager.save('job', stateOf(1, { part: noise(10, 1) }), { token: await manager.acquire('job') })
    }
    await using later = directoryStore('/store', { fs })
    expect(await later.damaged('job')).toEqual([])
    expect(await readBack(await later.open('job', 1))).toEqual({ part: noise(10, 1) })
  })

  it('is never fewer than two', () => {
    for (const keep of [{ generations: 1 }, { generations: 2.5 }, { maxAgeMs: -1 }, { maxBytes: NaN }]) {
      expect(() => new CheckpointManager(memoryStore(), { clock: new VirtualClock(), keep })).toThrow(TypeError)
    }
  })
})
