import { RuntimeKind } from '@egpu/core'
import { MigrationStrategy, RunState } from '@egpu/migrator'
import type { PlacementConstraints } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { disguised, onOpen } from './helpers/bookkeeping.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

const reference = mixed(256, 1_000)

describe('constraints', () => {
  it.each<readonly [string, PlacementConstraints, string]>([
    ['only', { only: ['sim/sim:gpu-B'] }, 'B'],
    ['never', { never: ['sim/sim:gpu-A', 'cpu'] }, 'B'],
    ['removable: false', { removable: false }, 'CPU'],
    ['leastMemoryBytes', { leastMemoryBytes: 2 ** 50 }, 'CPU'],
  ])('%s decides where work may begin', async (_what, constraints, name) => {
    await using machine = await bench({ boxes: 2 })
    const run = machine.migrator.run(new Mixer({ clock: machine.clock }), { constraints, startOn: 'sim/sim:gpu-A' })
    expect((await machine.until(run.started)).name).toBe(name)
    await machine.clock.advance(20_000)
    expect(run.where?.name ?? 'finished').toMatch(new RegExp(`${name}|finished`))
  })

  it('hold for devices by their id, and those of the migrator for all work besides', async () => {
    await using machine = await bench({ boxes: 3, constraints: { never: ['sim/sim:gpu-C'] } })
    const { clock, migrator, manager } = machine
    const ids = new Map((await machine.until(manager.targets())).map(({ name, deviceId }) => [name, deviceId ?? '']))
    const run = migrator.run(new Mixer({ clock, steps: 5_000 }), { constraints: { never: [ids.get('A') ?? ''] } })
    expect((await machine.until(run.started)).name).toBe('B')
    machine.boxes[1]?.yank()
    await clock.advance(100)
    expect(run.where?.name).toBe('CPU')
  })

  it('are not overruled by moveTo, by the strategy or by an eject', async () => {
    const strategy = { ...MigrationStrategy.Eager, choose: () => 'sim/sim:gpu-B' }
    await using machine = await bench({ boxes: 2, strategy })
    const { clock, migrator, manager } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { constraints: { only: ['sim/sim:gpu-A', 'cpu'] }, startOn: 'sim/sim:gpu-A' })
    await clock.advance(150)
    expect(run.where?.name).toBe('A')
    await expect(machine.until(run.moveTo('sim/sim:gpu-B'))).rejects.toThrow(
      'B (sim/sim:gpu-B) is not among those that are allowed',
    )
    expect((await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))).safeToUnplug).toBe(true)
    await clock.advance(10)
    expect(run.where?.name).toBe('CPU')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('that nothing meets park the work until something does', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, boxes } = machine
    boxes[1]?.yank()
    await clock.advance(100)
    const mixer = new Mixer({ clock, runtimes: [RuntimeKind.Simulated] })
    const run = migrator.run(mixer, { constraints: { only: ['sim/sim:gpu-B'] } })
    await clock.advance(1_000)
    expect(run.state).toBe(RunState.Parked)
    expect(machine.story()).toEqual(['mixer failed nowhere -> nowhere: EGPU_NO_TARGET'])
    boxes[1]?.plug()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('count for what a target turns out to be when it is open', async () => {
    await using machine = await bench({ boxes: 2, failBackAfterMs: Infinity })
    const { clock, migrator, driver } = machine
    // Enough for the work, not for what its user wants.
    onOpen(driver, async (open) => (open.target.id === 'sim:gpu-A' ? disguised(open, { memoryBytes: 10_000 }) : open))
    const run = migrator.run(new Mixer({ clock }), {
      constraints: { leastMemoryBytes: 100_000 },
      startOn: 'sim/sim:gpu-A',
    })
    expect((await machine.until(run.started)).name).toBe('B')
    expect(machine.story()[0]).toBe('mixer failed nowhere -> A: EGPU_MIGRATION_FAILED')
  })

  it('do not keep work that fails everywhere it may go from being given up', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const broken = new Mixer({ clock, fault: (call) => (call === 'restore' ? 'throw' : undefined) })
    const run = migrator.run(broken, { constraints: { only: ['sim/sim:gpu-A'] } })
    run.finished.catch(() => undefined)
    await expect(machine.until(run.finished)).rejects.toThrow(
      'failed again and again on every target that could take it',
    )
  })

  it.each(['restore', 'resume'] as const)('work given up for what its %s throws says what that was', async (broken) => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    mixer[broken] = () => {
      throw new Error('boom')
    }
    const run = migrator.run(mixer)
    run.finished.catch(() => undefined)
    await expect(machine.until(run.finished)).rejects.toMatchObject({
      code: 'EGPU_WORKLOAD_FAILED',
      message: expect.stringContaining(`mixer failed in ${broken}: boom`),
      cause: { code: 'EGPU_WORKLOAD_FAILED', cause: { message: 'boom' } },
    })
  })

  it('that cannot be are refused at once', async () => {
    await using machine = await bench()
    const { migrator, clock } = machine
    const odd = [
      { only: 'gpu' },
      { never: [1] },
      { removable: 'no' },
      { leastMemoryBytes: 0 },
      { leastMemoryBytes: NaN },
    ] as unknown as PlacementConstraints[]
    for (const constraints of odd) {
      expect(() => migrator.run(new Mixer({ clock }), { constraints })).toThrow(TypeError)
      await expect(bench({ constraints })).rejects.toThrow(TypeError)
    }
    expect(migrator.runs).toEqual([])
  })
})
