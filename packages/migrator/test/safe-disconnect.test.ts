import { RuntimeKind } from '@egpu/core'
import { RunState } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'
import { PagedWork } from './helpers/paged-work.ts'
import { SteadyWork } from './helpers/steady-work.ts'

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

  it('is refused at once where the work is known to need longer than is allowed', async () => {
    await using machine = await bench({ boxes: 2, migrationTimeoutMs: 60_000 })
    const { clock, migrator, manager } = machine
    const run = migrator.run(new SteadyWork({ clock, drainMs: 20_000 }), { startOn: 'sim/sim:gpu-A' })
    await machine.until(run.checkpoint())
    const startedAt = clock.now()
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? '', { deadlineMs: 5_000 }))
    expect(result).toMatchObject({ safeToUnplug: false, reason: expect.stringContaining('needs about 20') })
    expect(clock.now() - startedAt).toBeLessThan(1_000)
    expect(run.state).toBe(RunState.Running)
  })

  it('says how far it came where the state is not over in time, and the work goes on', async () => {
    await using machine = await bench({ boxes: 2, checkpointIntervalMs: 1e9, migrationTimeoutMs: 60_000 })
    const { clock, migrator, manager, boxes } = machine
    // 8 MiB over about 10 MB/s.
    for (const box of boxes) box.degradeLink({ lanes: 1, gbpsPerLane: 0.1 })
    const work = new PagedWork({ clock, pages: 2_048, steps: 100_000 })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await machine.until(run.started)
    const result = await machine.until(manager.safeDisconnect(run.where?.deviceId ?? '', { deadlineMs: 600 }))
    expect(result).toMatchObject({ safeToUnplug: false, reason: expect.stringMatching(/of 8\.4 MB are over, about/) })
    const told = machine.events.flatMap((event) => (event.type === 'migration-step' ? (event.progress ?? []) : []))
    expect(told.length).toBeGreaterThan(1)
    expect(told[0]).toMatchObject({ bytesTotal: 8_388_608, etaMs: expect.any(Number) })
    const { progress } = work
    await clock.advance(100)
    expect(run.where?.name).toBe('A')
    expect(work.progress).toBeGreaterThan(progress)
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
