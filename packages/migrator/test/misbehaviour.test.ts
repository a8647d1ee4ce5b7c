import { EGpuErrorCode, RuntimeKind } from '@egpu/core'
import { memoryStore, MigrationStrategy, RunState, WorkloadMigrator } from '@egpu/migrator'
import type { CheckpointStore, MigrationPolicy } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'
import type { Call } from './helpers/mixer.ts'

const reference = mixed(256, 1_000)

describe('settings that cannot be', () => {
  it('are a TypeError that names them', async () => {
    await using machine = await bench()
    const { manager } = machine
    expect(() => new WorkloadMigrator(manager, { migrationTimeoutMs: -1 })).toThrow(/migrationTimeoutMs .* not -1/)
    expect(() => new WorkloadMigrator(manager, { maxConcurrentMigrations: 0 })).toThrow(TypeError)
    expect(() => new WorkloadMigrator(manager, { maxConcurrentMigrations: 1.5 })).toThrow(TypeError)
    expect(() => new WorkloadMigrator(manager, { checkpointIntervalMs: Number.NaN })).toThrow(/checkpointIntervalMs/)
    expect(() => new WorkloadMigrator(manager, { failBackAfterMs: -5 })).toThrow(/failBackAfterMs/)
    expect(() => new WorkloadMigrator(manager, { keep: { generations: 1 } })).toThrow(/keep.generations/)
    expect(() => new WorkloadMigrator(manager, { strategy: {} as MigrationPolicy })).toThrow(/onWarning/)
  })

  it('include a second workload of the same id, and a run after the migrator was closed', async () => {
    await using machine = await bench()
    const { clock, migrator } = machine
    migrator.run(new Mixer({ clock }))
    expect(() => migrator.run(new Mixer({ clock }))).toThrow(/'mixer' is running already/)
    await machine.until(migrator.close())
    expect(() => migrator.run(new Mixer({ clock }))).toThrow(expect.objectContaining({ code: EGpuErrorCode.Closed }))
  })
})

describe('a strategy', () => {
  it('that names a missing target is reported, and the planner decides', async () => {
    const strategy: MigrationPolicy = { name: 'lost', onWarning: () => 'wait', choose: () => 'the moon' }
    await using machine = await bench({ strategy })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toEqual([
      'mixer failed nowhere -> nowhere: EGPU_NO_TARGET',
      'mixer failed A -> nowhere: EGPU_NO_TARGET',
      'mixer started A -> CPU (device-lost)',
      'mixer completed A -> CPU (device-lost)',
    ])
  })

  it.each([
    [
      'throws',
      (): never => {
        throw new Error('oops')
      },
    ],
    ['rejects later', (): never => Promise.reject(new Error('oops')) as never],
  ])('that %s harms nobody', async (_, oops) => {
    const strategy: MigrationPolicy = { name: 'broken', onWarning: oops, choose: oops, review: oops, reviewEveryMs: 50 }
    await using machine = await bench({ strategy, bytesPerSecond: oops })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('decides where to go', async () => {
    const strategy: MigrationPolicy = {
      ...MigrationStrategy.Lazy,
      name: 'last-letter',
      choose: (candidates) =>
        [...candidates].filter(({ kind }) => kind === 'gpu').sort((a, b) => b.name.localeCompare(a.name))[0]?.id,
    }
    await using machine = await bench({ strategy, boxes: 3 })
    const run = machine.migrator.run(new Mixer({ clock: machine.clock }))
    await machine.clock.advance(50)
    expect(run.where?.name).toBe('C')
  })
})

describe('a workload', () => {
  const first = (broken: Call, how: 'throw' | 'hang') => {
    let isDone = false
    return (call: Call): 'throw' | 'hang' | undefined => {
      if (call !== broken || isDone) return undefined
      isDone = true
      return how
    }
  }

  it.each(['throw', 'hang'] as const)('that %ss in freeze is reported, and the next checkpoint works', async (how) => {
    await using machine = await bench({ migrationTimeoutMs: 150, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock, fault: first('freeze', how) })
    const run = migrator.run(mixer)
    await clock.advance(600)
    expect(machine.story()).toEqual([
      `mixer checkpoint failed: ${how === 'throw' ? 'EGPU_WORKLOAD_FAILED' : 'EGPU_TIMEOUT'}`,
    ])
    expect(run.where?.name).toBe('A')
    expect(run.latestCheckpoint?.progress).toBeGreaterThan(100)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it.each(['throw', 'hang'] as const)(
    'that %ss in the drain is reported, and the next checkpoint works',
    async (how) => {
      await using machine = await bench({ migrationTimeoutMs: 150, failBackAfterMs: Infinity })
      const { clock, migrator, boxes } = machine
      const mixer = new Mixer({ clock, fault: first('read', how) })
      const run = migrator.run(mixer)
      await clock.advance(600)
      expect(machine.story()).toEqual(['mixer checkpoint failed: EGPU_CHECKPOINT_FAILED'])
      expect(run.latestCheckpoint?.progress).toBeGreaterThan(100)
      boxes[0]?.yank()
      await machine.until(run.finished)
      expect(mixer.result).toBe(reference)
    },
  )

  it.each([1, 60, 500])('whose steps of %i ms are longer than any limit is saved, and finishes', async (stepMs) => {
    await using machine = await bench({ migrationTimeoutMs: 20, checkpointIntervalMs: 50, failBackAfterMs: 0 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock, steps: 40, stepMs })
    const run = migrator.run(mixer)
    await machine.until(run.finished)
    expect(mixer.result).toBe(mixed(256, 40))
    expect(machine.story().filter((line) => line.includes('started')).length).toBeLessThan(20)
  })

  it.each(['throw', 'hang'] as const)('that %ss in restore goes to the next target', async (how) => {
    await using machine = await bench({ boxes: 2, migrationTimeoutMs: 400, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({
      clock,
      fault: (call, target) => (call === 'restore' && target?.target.name === 'B' ? how : undefined),
    })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toContain('mixer failed A -> B: EGPU_MIGRATION_FAILED')
    expect(machine.story().at(-1)).toBe('mixer completed A -> CPU (device-lost)')
  })

  it.each(['throw', 'hang'] as const)('that %ss in release is left behind', async (how) => {
    await using machine = await bench({ migrationTimeoutMs: 400, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock, fault: first('release', how) })
    const run = migrator.run(mixer)
    await clock.advance(250)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('that lies about its size never gets a checkpoint committed', async () => {
    for (const declaredBytes of [1_000, 2_000, -1, Number.NaN]) {
      await using machine = await bench()
      const { clock, migrator } = machine
      const run = migrator.run(new Mixer({ clock, declaredBytes }))
      await clock.advance(250)
      expect(machine.story()[0]).toBe('mixer checkpoint failed: EGPU_CHECKPOINT_FAILED')
      expect(run.latestCheckpoint).toBeUndefined()
      expect(await migrator.checkpoints.list('mixer')).toEqual([])
    }
  })

  it('that fails in every restore everywhere ends with EGPU_WORKLOAD_FAILED, its checkpoints kept', async () => {
    await using machine = await bench()
    const { clock, migrator, boxes } = machine
    let isBroken = false
    const mixer = new Mixer({ clock, fault: (call) => (isBroken && call === 'restore' ? 'throw' : undefined) })
    const run = migrator.run(mixer)
    await clock.advance(450)
    isBroken = true
    boxes[0]?.yank()
    await expect(machine.until(run.finished)).rejects.toMatchObject({ code: EGpuErrorCode.WorkloadFailed })
    expect(run.state).toBe(RunState.Failed)
    expect(await migrator.checkpoints.list('mixer')).toHaveLength(2)
  })

  it('whose work fails ends with that error as the cause', async () => {
    await using machine = await bench()
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    const cause = new Error('not a number')
    mixer.fail(cause)
    await expect(machine.until(run.finished)).rejects.toMatchObject({ code: EGpuErrorCode.WorkloadFailed, cause })
    expect(await migrator.checkpoints.list('mixer')).toHaveLength(2)
    expect(migrator.runs).toEqual([])
  })

  it('that needs more memory than a device has left is placed where it fits', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const memoryBytes = 5 * 2 ** 30
    const runs = [1, 2, 3].map((i) => migrator.run(new Mixer({ clock, id: `w${i}`, memoryBytes })))
    await clock.advance(10)
    expect(runs.map(({ where }) => where?.name).sort((a = '', b = '') => a.localeCompare(b))).toEqual(['A', 'B', 'CPU'])
  })

  it('that lacks a feature everywhere is told which, and waits', async () => {
    await using machine = await bench({ cpu: false })
    const { clock, migrator } = machine
    const run = migrator.run(new Mixer({ clock, runtimes: [RuntimeKind.Cuda] }))
    await clock.advance(100)
    expect(run.state).toBe(RunState.Parked)
    expect(machine.events[0]).toMatchObject({ error: { message: expect.stringContaining('A (sim/sim:gpu-A)') } })
  })
})

describe('a store', () => {
  /** A store that fails as told, and otherwise is one in memory. */
  function moody(mood: (call: keyof CheckpointStore) => 'throw' | 'hang' | undefined): CheckpointStore {
    const inner = memoryStore()
    return new Proxy(inner, {
      get(target, name: keyof CheckpointStore) {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        return async (...args: unknown[]) => {
          const now = mood(name)
          if (now === 'throw') throw new Error('ENOSPC: no space left on device')
          if (now === 'hang') await new Promise(() => undefined)
          return Reflect.apply(value, target, args)
        }
      },
    })
  }

  it('that is full for a while is reported; earlier checkpoints stay and the next save works', async () => {
    let isFull = false
    const store = moody((call) => (isFull && call === 'begin' ? 'throw' : undefined))
    await using machine = await bench({ store, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    const before = run.latestCheckpoint?.generation
    isFull = true
    await clock.advance(200)
    expect(machine.story()[0]).toBe('mixer checkpoint failed: EGPU_CHECKPOINT_FAILED')
    await expect(machine.until(run.checkpoint())).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
    expect((await store.list('mixer'))[0]?.generation).toBe(before)
    isFull = false
    await machine.until(run.checkpoint())
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('that does not answer makes lost work wait rather than begin again from nothing', async () => {
    let isGone = false
    const store = moody((call) => (isGone && call === 'list' ? 'throw' : undefined))
    await using machine = await bench({ store, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(450)
    isGone = true
    boxes[0]?.yank()
    await clock.advance(5_000)
    expect(mixer.calls.filter((call) => call.startsWith('restore afresh'))).toHaveLength(1)
    isGone = false
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('whose commit comes about after the work has finished leaves no checkpoint of it', async () => {
    let goOn: (() => void) | undefined
    const inner = memoryStore()
    const store: CheckpointStore = {
      ...inner,
      begin: async (draft) => {
        const writer = await inner.begin(draft)
        const hold = draft.progress > 900 && goOn === undefined
        return {
          ...writer,
          commit: async () => {
            if (hold) await new Promise<void>((resolve) => (goOn = resolve))
            return writer.commit()
          },
        }
      },
    }
    await using machine = await bench({ store })
    const { clock, migrator } = machine
    const run = migrator.run(new Mixer({ clock }))
    await machine.until(run.finished)
    await clock.advance(10)
    expect(goOn).toBeDefined()
    goOn?.()
    await clock.advance(10)
    expect(await store.list('mixer')).toEqual([])
  })

  it('that cannot take over in time does not hold up the work', async () => {
    let isSlow = false
    const store = moody((call) => (isSlow && call === 'acquire' ? 'hang' : undefined))
    await using machine = await bench({ store, failBackAfterMs: Infinity, migrationTimeoutMs: 5_000 })
    const { clock, migrator, boxes } = machine
    const run = migrator.run(new Mixer({ clock }))
    await clock.advance(450)
    isSlow = true
    boxes[0]?.yank()
    await clock.advance(2_100)
    expect(run.where?.name).toBe('CPU')
  })
})

describe('a run', () => {
  it('that is closed saves its last state, and a later run goes on from there', async () => {
    const store = memoryStore()
    await using machine = await bench({ store })
    const { clock, migrator } = machine
    const run = migrator.run(new Mixer({ clock }))
    await clock.advance(250)
    await machine.until(run.close())
    await machine.until(run.close())
    expect(run.state).toBe(RunState.Closed)
    await expect(run.finished).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
    const again = new Mixer({ clock })
    const second = migrator.run(again)
    await machine.until(second.started)
    expect(again.progress).toBeGreaterThanOrEqual(240)
    await machine.until(second.finished)
    expect(again.result).toBe(reference)
    await machine.until(migrator.close())
    expect(await store.list('mixer')).toEqual([])
  })

  it('of finished work leaves its checkpoints where they are to be kept, and the next of the same id waits for their end where not', async () => {
    const store = memoryStore()
    await using machine = await bench({ store })
    const { clock, migrator } = machine
    await machine.until(migrator.run(new Mixer({ clock }), { keepCheckpoints: true }).finished)
    await clock.advance(10)
    expect(await store.list('mixer')).toHaveLength(2)
    await machine.until(migrator.run(new Mixer({ clock })).finished)
    const third = new Mixer({ clock })
    await machine.until(migrator.run(third).started)
    expect(third.calls[0]).toBe('restore afresh on A')
  })

  it('ends with the reason of its signal', async () => {
    await using machine = await bench()
    const { clock, migrator } = machine
    const controller = new AbortController()
    const run = migrator.run(new Mixer({ clock }), { signal: controller.signal })
    await clock.advance(250)
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(machine.until(run.finished)).rejects.toBe(reason)
    expect(run.latestCheckpoint?.progress).toBeGreaterThanOrEqual(240)
  })

  it('moves on request, and stays with a typed error where it cannot', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    expect((await machine.until(run.moveTo('sim/sim:gpu-B'))).name).toBe('B')
    await expect(machine.until(run.moveTo('the moon'))).rejects.toMatchObject({ code: EGpuErrorCode.NoTarget })
    expect(run.where?.name).toBe('B')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story().slice(0, 2)).toEqual([
      'mixer started A -> B (requested)',
      'mixer completed A -> B (requested)',
    ])
  })

  it('checkpoints on request, at the progress of the request or later', async () => {
    await using machine = await bench({ checkpointIntervalMs: 100_000 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    const { progress } = mixer
    const record = await machine.until(run.checkpoint())
    expect(record.progress).toBeGreaterThanOrEqual(progress)
    expect(machine.events).toContainEqual(
      expect.objectContaining({
        type: 'checkpoint-saved',
        workloadId: 'mixer',
        progress: record.progress,
        bytes: 1_024,
      }),
    )
  })
})
