import { RunState } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { contractBreaches, disguised, migrationBreaches, onOpen } from './helpers/bookkeeping.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

const reference = mixed(256, 1_000)

describe('a move that comes to nothing', () => {
  it('before the work was stopped does not set it to work a second time', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    await expect(machine.until(run.moveTo('the moon'))).rejects.toThrow(/no target/)
    expect(contractBreaches(mixer)).toEqual([])
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('because the work cannot be saved is rolled back, and says so', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    let isBroken = false
    const mixer = new Mixer({ clock, fault: (call) => (isBroken && call === 'freeze' ? 'throw' : undefined) })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    isBroken = true
    await expect(machine.until(run.moveTo('sim/sim:gpu-B'))).rejects.toThrow(/freeze is broken/)
    isBroken = false
    expect(machine.steps()).toEqual(['reserved', 'checked', 'rolled-back'])
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(contractBreaches(mixer)).toEqual([])
    expect(migrationBreaches(machine.events)).toEqual([])
  })

  it.each(['suspend', 'restore', 'release'] as const)(
    'because the run is closed during %s still gets its end told',
    async (held) => {
      await using machine = await bench({ boxes: 2 })
      const { clock, migrator } = machine
      let isHeld = false
      const mixer = new Mixer({ clock, fault: (call) => (isHeld && call === held ? 'hang' : undefined) })
      const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
      await clock.advance(250)
      isHeld = true
      run.moveTo('sim/sim:gpu-B').catch(() => undefined)
      await clock.advance(10)
      await machine.until(run.close())
      expect(run.state).toBe(RunState.Closed)
      expect(machine.story()).toEqual([
        'mixer started A -> B (requested)',
        'mixer failed A -> B: EGPU_MIGRATION_FAILED',
      ])
      expect(migrationBreaches(machine.events)).toEqual([])
    },
  )

  it('because the work is done first still gets its end told', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, driver } = machine
    const mixer = new Mixer({ clock, steps: 300 })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    // Opening B takes longer than the rest of the work.
    onOpen(driver, async (open) => {
      await clock.sleep(500)
      return open
    })
    run.moveTo('sim/sim:gpu-B').catch(() => undefined)
    await machine.until(run.finished)
    await clock.advance(1_000)
    expect(machine.story()).toEqual(['mixer started A -> B (requested)', 'mixer failed A -> B: EGPU_MIGRATION_FAILED'])
    expect(migrationBreaches(machine.events)).toEqual([])
  })
})

describe('a target that turns out not to fit once it is open', () => {
  it('is left before the work is stopped, and the work stays where it was', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, driver } = machine
    const mixer = new Mixer({ clock, features: ['f16'] })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    onOpen(driver, async (open) => disguised(open, { features: [] }))
    await expect(machine.until(run.moveTo('sim/sim:gpu-B'))).rejects.toThrow(/no target/)
    const failed = machine.events.find(({ type }) => type === 'migration-failed')
    expect(failed).toMatchObject({ error: { message: expect.stringContaining('lacks the feature f16') } })
    expect(mixer.calls.some((call) => call.startsWith('suspend'))).toBe(false)
    expect(run.where?.name).toBe('A')
  })
})

describe('a move', () => {
  it('tells each of its steps, and the work stands still between two of them only', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    await machine.until(run.moveTo('sim/sim:gpu-B'))
    expect(machine.steps()).toEqual([
      'reserved',
      'checked',
      'frozen',
      'released',
      'transferring',
      'restored',
      'committed',
    ])
    expect(contractBreaches(mixer)).toEqual([])
  })
})
