import { RuntimeKind } from '@egpu/core'
import { RunState } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

const reference = mixed(256, 1_000)

describe('safeDisconnect', () => {
  it('moves the work first and loses none of it', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, manager } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))
    expect(result).toMatchObject({ safeToUnplug: true, moved: ['mixer'] })
    await clock.advance(10)
    expect(run.where?.name).toBe('B')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toEqual([
      'mixer started A -> B (device-leaving)',
      'mixer completed A -> B (device-leaving)',
    ])
    const completed = machine.events.find(({ type }) => type === 'migration-completed')
    expect(completed).toMatchObject({ migration: { lostProgress: 0 } })
  })

  it('parks work that can go nowhere else, and brings it back with the device', async () => {
    await using machine = await bench({ failBackAfterMs: 100 })
    const { clock, migrator, manager, boxes } = machine
    const mixer = new Mixer({ clock, runtimes: [RuntimeKind.Simulated] })
    const run = migrator.run(mixer)
    await clock.advance(250)
    const progress = mixer.progress
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))
    expect(result.safeToUnplug).toBe(true)
    expect(run.state).toBe(RunState.Parked)
    expect(run.latestCheckpoint?.progress).toBeGreaterThanOrEqual(progress)
    boxes[0]?.yank()
    await clock.advance(10_000)
    boxes[0]?.plug()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('is refused with the reason when the work cannot be saved, and the work goes on where it is', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, manager } = machine
    let isBroken = false
    const mixer = new Mixer({ clock, fault: (call) => (isBroken && call === 'freeze' ? 'throw' : undefined) })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    isBroken = true
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))
    expect(result.safeToUnplug).toBe(false)
    if (result.safeToUnplug) throw new Error('unreachable')
    expect(result.vetoes).toEqual([{ guest: 'migrator', reason: expect.stringContaining('freeze is broken') }])
    expect(run.where?.name).toBe('A')
    expect(run.state).toBe(RunState.Running)
    isBroken = false
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('gives up the wait for a workload that hangs in suspend, and says so', async () => {
    await using machine = await bench({ boxes: 2, migrationTimeoutMs: 700 })
    const { clock, migrator, manager } = machine
    const mixer = new Mixer({ clock, fault: (call) => (call === 'suspend' ? 'hang' : undefined) })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))
    expect(result).toMatchObject({ safeToUnplug: false, reason: expect.stringContaining('within 700 ms') })
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('that is called off lets the work return', async () => {
    await using machine = await bench({ failBackAfterMs: 100 })
    const { clock, migrator, manager, driver } = machine
    driver.machine.gpu('gpu-A').failEject('unbind', 'somebody has it open')
    const run = migrator.run(new Mixer({ clock }))
    await clock.advance(250)
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? ''))
    expect(result.safeToUnplug).toBe(false)
    expect(run.where?.name).toBe('CPU')
    await clock.advance(300)
    expect(run.where?.name).toBe('A')
  })

  it('while the device is pulled after all still ends with the work elsewhere', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, manager, boxes } = machine
    let isPulled = false
    const mixer = new Mixer({
      clock,
      fault: (call, target) => {
        if (call === 'suspend' && !isPulled && target?.target.name === 'A') {
          isPulled = true
          boxes[0]?.yank()
        }
        return undefined
      },
    })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(250)
    await machine.until(manager.safeDisconnect(run.where?.deviceId ?? '').catch((error: unknown) => error))
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(run.state).toBe(RunState.Finished)
    expect(mixer.doubleOwners).toBe(0)
  })
})
