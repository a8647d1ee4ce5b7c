import { RuntimeKind } from '@egpu/core'
import { MigrationStrategy, RunState } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'

const reference = mixed(256, 1_000)

describe('a lost device', () => {
  it('costs at most the work since the last checkpoint, and the result is the same bit for bit', async () => {
    await using machine = await bench()
    const { clock, migrator, boxes, events } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(450)
    expect(run.where?.name).toBe('A')
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toEqual(['mixer started A -> CPU (device-lost)', 'mixer completed A -> CPU (device-lost)'])
    const completed = events.find(({ type }) => type === 'migration-completed')
    expect(completed).toMatchObject({ migration: { resumedAt: expect.any(Number), lostProgress: expect.any(Number) } })
    if (completed?.type !== 'migration-completed') throw new Error('nothing was completed')
    expect(completed.migration.lostProgress).toBeGreaterThan(0)
    expect(completed.migration.lostProgress).toBeLessThanOrEqual(110)
    expect(completed.migration.resumedAt).toBeGreaterThanOrEqual(340)
    expect(run.state).toBe(RunState.Finished)
  })

  it('starts afresh when it went before the first checkpoint', async () => {
    await using machine = await bench()
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(50)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.calls).toContain('restore afresh on CPU')
    expect(mixer.result).toBe(reference)
  })

  it('is survived twice in a row, and both at once', async () => {
    await using machine = await bench({ boxes: 3, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    boxes[0]?.yank()
    await clock.advance(250)
    expect(run.where?.name).toBe('B')
    boxes[1]?.yank()
    boxes[2]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story().at(-1)).toBe('mixer completed B -> CPU (device-lost)')
  })

  it('during a restore makes the work go on to the next target with the same checkpoint', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({
      clock,
      fault: (call, target) => {
        if (call === 'restore' && target?.target.name === 'B') boxes[1]?.yank()
        return undefined
      },
    })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(450)
    boxes[0]?.yank()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toEqual([
      'mixer started A -> B (device-lost)',
      'mixer failed A -> B: EGPU_MIGRATION_FAILED',
      'mixer started A -> CPU (device-lost)',
      'mixer completed A -> CPU (device-lost)',
    ])
    const restores = mixer.calls.filter((call) => call.startsWith('restore')).slice(1)
    expect(restores).toHaveLength(2)
    expect(restores[0]?.replace('B', 'CPU')).toBe(restores[1])
  })

  it('during a drain discards that checkpoint and leaves the one before it intact', async () => {
    await using machine = await bench({ checkpointIntervalMs: 100, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    let drains = 0
    const mixer = new Mixer({
      clock,
      fault: (call) => {
        if (call === 'read' && (drains += 1) === 2) boxes[0]?.yank()
        return undefined
      },
    })
    const run = migrator.run(mixer)
    await machine.until(run.finished)
    const first = machine.events.find((event) => event.type === 'checkpoint-saved')
    expect(mixer.calls.findLast((call) => call.startsWith('restore'))).toBe(`restore ${first?.progress} on CPU`)
    expect(machine.story()[0]).toBe('mixer checkpoint failed: EGPU_DEVICE_LOST')
    expect(mixer.result).toBe(reference)
  })

  it('parks work that no other target can take, and resumes it when one comes', async () => {
    await using machine = await bench()
    const { clock, migrator, boxes, manager } = machine
    const mixer = new Mixer({ clock, runtimes: [RuntimeKind.Simulated] })
    const run = migrator.run(mixer)
    await clock.advance(450)
    boxes[0]?.yank()
    await clock.advance(60_000)
    expect(run.state).toBe(RunState.Parked)
    expect(run.where).toBeUndefined()
    expect(machine.story()).toEqual(['mixer failed A -> nowhere: EGPU_NO_TARGET'])
    const failed = machine.events.find(({ type }) => type === 'migration-failed')
    expect(failed).toMatchObject({ error: { message: expect.stringContaining('no code for') } })
    boxes[0]?.plug()
    await machine.until(manager.next('migration-completed'))
    expect(run.where?.name).toBe('A')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('waits for no call into the dead device: every one of them may hang', async () => {
    await using machine = await bench({ migrationTimeoutMs: 10_000 })
    const { clock, migrator, driver, events } = machine
    let isDead = false
    const mixer = new Mixer({
      clock,
      fault: (call, target) => (isDead && target?.target.name === 'A' && call !== 'restore' ? 'hang' : undefined),
    })
    const run = migrator.run(mixer)
    await clock.advance(399)
    isDead = true
    await clock.advance(1)
    driver.machine.gpu('gpu-A').wedge()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    const completed = events.find(({ type }) => type === 'migration-completed')
    // `release` hangs too: its grace of 2 s, not the 10 s of a migration, is all that is given away.
    expect(completed).toMatchObject({ migration: { rtoMs: 2_000 } })
  })

  it('that nobody reports is noticed by two freezes that do not come back', async () => {
    await using machine = await bench({ migrationTimeoutMs: 500 })
    const { clock, migrator, driver } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(450)
    driver.machine.gpu('gpu-A').wedge({ silent: true })
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toContain('mixer checkpoint failed: EGPU_TIMEOUT')
    expect(machine.story()).toContain('mixer completed A -> CPU (device-lost)')
  })

  it('goes to the CPU first where that is preferred, and to another GPU where it is not', async () => {
    for (const preferCpuFallback of [true, false]) {
      await using machine = await bench({ boxes: 2, preferCpuFallback, failBackAfterMs: Infinity })
      const { clock, migrator, boxes } = machine
      const run = migrator.run(new Mixer({ clock }), { startOn: 'sim/sim:gpu-A' })
      await clock.advance(200)
      boxes[0]?.yank()
      await clock.advance(50)
      expect(run.where?.name).toBe(preferCpuFallback ? 'CPU' : 'B')
    }
  })

  it('reported by the application alone moves the work as well', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(200)
    await machine.until(migrator.onDeviceFailure(run.where?.deviceId ?? '', 'the picture was garbage'))
    expect(run.where?.name).toBe('B')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })

  it('of many workloads moves so many at once as is allowed, urgent ones first', async () => {
    await using machine = await bench({ maxConcurrentMigrations: 2, strategy: MigrationStrategy.Lazy })
    const { clock, migrator, boxes } = machine
    const mixers = Array.from({ length: 7 }, (_, i) => new Mixer({ clock, id: `w${i}`, words: 64, steps: 200 }))
    const runs = mixers.map((mixer, i) => migrator.run(mixer, { priority: i }))
    await clock.advance(500)
    expect(runs.every(({ where }) => where?.name === 'A')).toBe(true)
    boxes[0]?.yank()
    let longest = 0
    const watch = setInterval(() => (longest = Math.max(longest, migrator.queue.length)), 0)
    await machine.until(Promise.all(runs.map(({ finished }) => finished)))
    clearInterval(watch)
    for (const mixer of mixers) expect(mixer.result).toBe(mixed(64, 200))
    const order = machine
      .story()
      .filter((line) => line.includes('started'))
      .map((line) => line.slice(0, 2))
    // The first two got through at once; of those that waited, the highest priority came first.
    expect(order.slice(2)).toEqual(order.slice(2).sort((a, b) => b.localeCompare(a)))
  })
})

describe('work that kills devices', () => {
  it('is stopped after the third, before it gets to the rest, with its checkpoints kept', async () => {
    await using machine = await bench({ boxes: 5, checkpointIntervalMs: 50, failBackAfterMs: Infinity })
    const { clock, migrator, driver } = machine
    const mixer = new Mixer({ clock, runtimes: [RuntimeKind.Simulated] })
    const run = migrator.run(mixer)
    run.finished.catch(() => undefined)
    await clock.advance(120)
    for (let victims = 0; victims < 3; victims += 1) {
      driver.machine.gpu(`gpu-${run.where?.name}`).wedge()
      await clock.advance(20)
    }
    await expect(machine.until(run.finished)).rejects.toThrow(/was running each time when A, B, C died/)
    expect(run.state).toBe(RunState.Failed)
    expect(await migrator.checkpoints.list('mixer')).not.toEqual([])
  })

  it('is not suspected where it got further in between, nor where cables were pulled', async () => {
    await using machine = await bench({ boxes: 5, checkpointIntervalMs: 50, failBackAfterMs: Infinity })
    const { clock, migrator, driver, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    for (let victims = 0; victims < 2; victims += 1) {
      await clock.advance(120)
      driver.machine.gpu(`gpu-${run.where?.name}`).wedge()
    }
    await clock.advance(20)
    for (const box of boxes.slice(2)) {
      box.yank()
      await clock.advance(20)
    }
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
  })
})

describe('a device that comes back', () => {
  it('gets its work back once it has stayed for a while', async () => {
    await using machine = await bench({ failBackAfterMs: 300 })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await clock.advance(250)
    boxes[0]?.yank()
    await clock.advance(100)
    boxes[0]?.plug()
    await clock.advance(290)
    expect(run.where?.name).toBe('CPU')
    await clock.advance(100)
    expect(run.where?.name).toBe('A')
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story().at(-1)).toBe('mixer completed CPU -> A (returned)')
  })

  it('waits longer each time it is lost again, so a loose cable does not make the work flap', async () => {
    await using machine = await bench({ failBackAfterMs: 300 })
    const { clock, migrator, boxes } = machine
    const mixer = new Mixer({ clock, steps: 3_000 })
    const run = migrator.run(mixer)
    const box = boxes[0]
    await clock.advance(250)
    await machine.until(box?.flap({ times: 10, everyMs: 50 }) ?? Promise.resolve())
    expect(run.where?.name).toBe('CPU')
    // Nine further losses: 300 ms x 2^6 at the most.
    await clock.advance(10_000)
    expect(run.where?.name).toBe('CPU')
    await machine.until(run.finished)
    expect(mixer.result).toBe(mixed(256, 3_000))
    expect(machine.story().filter((line) => line.includes('completed')).length).toBeLessThanOrEqual(2)
  })

  it('is known again on another port, where its bus address is another', async () => {
    await using machine = await bench({ failBackAfterMs: 300 })
    const { clock, migrator, boxes, manager } = machine
    const run = migrator.run(new Mixer({ clock }))
    await clock.advance(250)
    const before = manager.devices[0]?.identity.pciAddress
    boxes[0]?.yank()
    await clock.advance(100)
    boxes[0]?.plug({ port: 'domain0/port3' })
    await machine.until(
      manager.next('migration-completed', { where: ({ migration }) => migration.reason === 'returned' }),
    )
    expect(manager.devices[0]?.identity.pciAddress).not.toBe(before)
    expect(run.where?.name).toBe('A')
  })
})
