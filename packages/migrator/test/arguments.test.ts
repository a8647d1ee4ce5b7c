import { EGpuErrorCode } from '@egpu/core'
import type { Checkpointable } from '@egpu/core'
import { importCheckpoint, memoryStore, WorkloadMigrator } from '@egpu/migrator'
import type { MigrationConfig } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { Mixer } from './helpers/mixer.ts'

/** What JavaScript lets through. */
const nonsense = (value: unknown): never => value as never

describe('a wrong argument is refused at once', () => {
  it.each<readonly [string, unknown, string]>([
    ['settings that are none', './checkpoints', 'the settings of a migrator must be an object, not "./checkpoints"'],
    ['a path as store', { store: './checkpoints' }, 'store must be a CheckpointStore'],
    ['a store that lacks methods', { store: { ...memoryStore(), acquire: undefined } }, 'acquire()'],
    ['a path as journal', { journal: './journal' }, 'journal must be a MigrationJournal'],
    ['a number of generations as keep', { keep: 3 }, 'keep must be an object, not 3'],
    ['words for yes', { preferCpuFallback: 'yes' }, 'preferCpuFallback must be true or false, not "yes"'],
    ['yes for the processor', { cpu: true }, 'cpu must be a function'],
  ])('as settings: %s', async (_what, config, text) => {
    await using machine = await bench()
    expect(() => new WorkloadMigrator(machine.manager, nonsense(config) satisfies MigrationConfig)).toThrow(TypeError)
    expect(() => new WorkloadMigrator(machine.manager, nonsense(config))).toThrow(text)
  })

  it.each([undefined, null, {}, 'manager'])('as manager: %j', (manager) => {
    expect(() => new WorkloadMigrator(nonsense(manager))).toThrow('the first argument must be an EGpuManager')
  })

  it.each<readonly [string, (workload: Mixer) => unknown, string]>([
    ['nothing', () => undefined, 'a workload must be a Checkpointable, not undefined'],
    ['an empty object', () => ({}), 'one without restore(), resume(), freeze(), suspend(), release()'],
    ['no id', (workload) => changed(workload, { id: undefined }), 'a workload needs an `id`'],
    ['no needs', (workload) => changed(workload, { needs: undefined }), "`needs` of the workload 'mixer'"],
    ['no end', (workload) => changed(workload, { finished: undefined }), "`finished` of the workload 'mixer'"],
  ])('as workload: %s', async (_what, make, text) => {
    await using machine = await bench()
    const workload = make(new Mixer({ clock: machine.clock }))
    expect(() => machine.migrator.run(nonsense(workload) satisfies Checkpointable)).toThrow(text)
    expect(machine.migrator.runs).toEqual([])
  })

  it.each([undefined, null, '', 7])('as the target of a move: %j, and the work stays where it is', async (target) => {
    await using machine = await bench()
    const run = machine.migrator.run(new Mixer({ clock: machine.clock }))
    const { id } = await machine.until(run.started)
    await expect(run.moveTo(nonsense(target))).rejects.toThrow(TypeError)
    await machine.clock.advance(50)
    expect(run.where?.id).toBe(id)
  })

  it('as the target of a move: an id that nobody has, and the message names those that there are', async () => {
    await using machine = await bench()
    const run = machine.migrator.run(new Mixer({ clock: machine.clock }))
    const { id } = await machine.until(run.started)
    const move = machine.until(run.moveTo('nope'))
    await expect(move).rejects.toMatchObject({ code: EGpuErrorCode.NoTarget })
    await expect(move).rejects.toThrow(`there is no target nope for mixer to move to; there are:\n  ${id}`)
  })

  it.each([undefined, 'a.checkpoint', 7, [1, 2], ['text']])('as an exported checkpoint: %j', async (source) => {
    await expect(importCheckpoint(memoryStore(), nonsense(source))).rejects.toThrow(
      'an exported checkpoint is read from its bytes',
    )
  })
})

function changed(workload: Mixer, changes: Partial<Record<keyof Checkpointable, unknown>>): unknown {
  return Object.create(workload, Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, { value }])))
}
