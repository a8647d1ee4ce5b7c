import { MigrationStrategy } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { Mixer } from './helpers/mixer.ts'

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

  it('makes Lazy take a checkpoint and stay', async () => {
    expect(
      MigrationStrategy.Lazy.onWarning(
        { kind: 'critical', device: {} as never, reason: 'hot' },
        { id: 'w', priority: 0, where: undefined, progress: 1, savedProgress: undefined },
      ),
    ).toBe('checkpoint')
  })
})
