import type { HealthSample } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { MigrationStrategy } from '@egpu/migrator'
import type { MigrationConfig, TargetLink, WorkloadRun } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { RescueLine } from '../src/run/rescue-line.ts'
import { bench } from './helpers/bench.ts'
import type { Bench } from './helpers/bench.ts'
import { BulkyWork, SharedCable } from './helpers/bulky-work.ts'

/** Box A behind a cable of so many bytes per second, as its driver tells. */
async function thin(
  bytesPerSecond: number,
  config: MigrationConfig & { readonly healthIntervalMs?: number } = {},
): Promise<Bench & { readonly cable: SharedCable; carries: number }> {
  const machine = await bench({
    boxes: 1,
    checkpointIntervalMs: 1e9,
    strategy: MigrationStrategy.Lazy,
    migrationTimeoutMs: 30_000,
    ...config,
  })
  machine.boxes[0]?.degradeLink({ lanes: 1, gbpsPerLane: (bytesPerSecond * 8) / 1e9 })
  await machine.clock.advance(1)
  const [target] = await machine.until(machine.manager.targets())
  const carries = (target?.linkGBps?.fromDevice ?? 0) * 1e9
  return Object.assign(machine, { cable: new SharedCable(machine.clock, carries), carries })
}

async function saveMs(machine: Bench, run: WorkloadRun): Promise<number> {
  const { clock } = machine
  const startedAt = clock.now()
  await machine.until(run.checkpoint())
  return clock.now() - startedAt
}

const mega = 2 ** 20

describe('saving over a link', () => {
  it('takes half of what a removable one carries, all work on the device together', async () => {
    await using machine = await thin(mega)
    const { clock, migrator, cable, carries } = machine
    const works = ['a', 'b'].map((id) => migrator.run(new BulkyWork({ id, clock, cable, bytes: 4 * mega })))
    await machine.until(Promise.all(works.map(({ started }) => started)))
    const startedAt = clock.now()
    await machine.until(Promise.all(works.map((run) => run.checkpoint())))
    const share = (8 * mega) / ((clock.now() - startedAt) / 1_000) / carries
    expect(share).toBeGreaterThan(0.45)
    expect(share).toBeLessThan(0.52)
  })

  it('takes what the user says: a number, or what a function makes of the link', async () => {
    const links: TargetLink[] = []
    for (const bytesPerSecond of [
      mega / 8,
      (link: TargetLink) => {
        links.push(link)
        return mega / 8
      },
    ]) {
      await using machine = await thin(mega, { bytesPerSecond })
      const { clock, migrator, cable } = machine
      const run = migrator.run(new BulkyWork({ id: 'w', clock, cable, bytes: 2 * mega }))
      await machine.until(run.started)
      expect(await saveMs(machine, run)).toBeGreaterThan(15_000)
    }
    expect(links[0]).toMatchObject({ target: { name: 'A' }, fromDeviceGBps: expect.any(Number) })
  })

  it.each<readonly [string, () => number | undefined]>([
    [
      'throws',
      () => {
        throw new Error('odd')
      },
    ],
    ['gives nothing', () => undefined],
    ['gives 0', () => 0],
    ['gives NaN', () => NaN],
  ])('is not limited by a function that %s', async (_what, bytesPerSecond) => {
    await using machine = await thin(mega, { bytesPerSecond })
    const { clock, migrator, cable, carries } = machine
    const run = migrator.run(new BulkyWork({ id: 'w', clock, cable, bytes: 2 * mega }))
    await machine.until(run.started)
    expect(await saveMs(machine, run)).toBeLessThan(1.1e3 * ((2 * mega) / carries))
  })

  it('refuses a number that cannot be', async () => {
    for (const bytesPerSecond of [0, -1, NaN]) {
      await expect(bench({ bytesPerSecond })).rejects.toThrow('bytesPerSecond must be more than 0')
    }
  })

  it('slows down while the link counts errors, and not because two drivers count differently', async () => {
    let errors = 0
    await using machine = await thin(mega, { bytesPerSecond: mega / 2 })
    const { clock, migrator, manager, cable } = machine
    const run = migrator.run(new BulkyWork({ id: 'w', clock, cable, bytes: 2 * mega }))
    await machine.until(run.started)
    const device = manager.devices[0]
    const tell = (driver: string, total: number): void => {
      const sample: HealthSample = { atMs: clock.now(), correctableErrors: total }
      if (device !== undefined) manager.report({ type: 'health-sampled', device, driver, sample })
    }
    for (let i = 0; i < 10; i += 1) {
      tell('one', 5)
      tell('other', 7)
    }
    const calm = await saveMs(machine, run)
    tell('one', (errors += 6))
    tell('one', (errors += 1))
    const troubled = await saveMs(machine, run)
    expect(calm).toBeLessThan(4_500)
    expect(troubled).toBeGreaterThan(1.5 * calm)
  })

  it('waits for no limit while the work stands still for it', async () => {
    await using machine = await thin(mega, { bytesPerSecond: mega / 1_024, migrationTimeoutMs: 60_000 })
    const { clock, migrator, cable } = machine
    const run = migrator.run(new BulkyWork({ id: 'w', clock, cable, bytes: 2 * mega }))
    await machine.until(run.started)
    const startedAt = clock.now()
    // One is under way at the slow pace when the move comes.
    run.checkpoint().catch(() => undefined)
    await clock.advance(1_000)
    await machine.until(run.moveTo('cpu'))
    expect(clock.now() - startedAt).toBeLessThan(8_000)
    expect(run.latestCheckpoint?.progress).toBeGreaterThan(0)
  })
})

/** Tells of an error that was not corrected, which is an alarm, in so many milliseconds from now. */
function alarmed({ manager, clock }: Bench): void {
  const device = manager.devices[0]
  if (device === undefined) throw new Error('there is no device')
  for (const fatalErrors of [0, 1]) {
    const sample: HealthSample = { atMs: clock.now() + fatalErrors, fatalErrors }
    manager.report({ type: 'health-sampled', device, driver: 'sim', sample })
  }
}

describe('a loss that is expected before all can be saved', () => {
  it('costs least: what pays most is saved first, one after another, and the others are not begun', async () => {
    await using machine = await thin(100_000)
    const { clock, migrator, cable, carries, boxes } = machine
    // Nothing tells when, so it is taken to come in two minutes: two of three fit.
    const fit = (carries * 120) / 2.2
    const bytes = { small: fit, other: fit, large: fit * 1.8 }
    const runs = Object.entries(bytes).map(([id, size]) =>
      migrator.run(new BulkyWork({ id, clock, cable, bytes: Math.round(size) })),
    )
    await machine.until(Promise.all(runs.map(({ started }) => started)))
    await clock.advance(10_000)
    alarmed(machine)
    await clock.advance(60_000)
    expect(runs.filter(({ latestCheckpoint }) => latestCheckpoint !== undefined)).toHaveLength(1)
    await clock.advance(55_000)
    expect(runs.map(({ latestCheckpoint }) => latestCheckpoint !== undefined)).toEqual([true, true, false])
    boxes[0]?.yank()
    await clock.advance(1_000)
    expect(runs.map(({ workload }) => workload.progress > 10_000)).toEqual([true, true, false])
  })

  it('puts off a save that is under way and cannot be finished for one that can', async () => {
    await using machine = await thin(100_000)
    const { clock, migrator, cable, carries } = machine
    const work = new BulkyWork({ id: 'large', clock, cable, bytes: Math.round(carries * 300) })
    const large = migrator.run(work)
    const small = migrator.run(new BulkyWork({ id: 'small', clock, cable, bytes: Math.round(carries * 60) }))
    await machine.until(Promise.all([large.started, small.started]))
    await clock.advance(1_000)
    const saving = large.checkpoint()
    await clock.advance(10_000)
    alarmed(machine)
    await clock.advance(65_000)
    expect(small.latestCheckpoint).toBeDefined()
    expect(large.latestCheckpoint).toBeUndefined()
    // The loss did not come: what waited goes on where it was.
    expect((await machine.until(saving)).byteLength).toBe(work.drainedBytes)
  })

  it('saves at full speed what can be saved', async () => {
    await using machine = await thin(mega, { bytesPerSecond: mega / 64 })
    const { clock, migrator, cable } = machine
    const run = migrator.run(new BulkyWork({ id: 'w', clock, cable, bytes: 2 * mega }))
    await machine.until(run.started)
    await clock.advance(1_000)
    alarmed(machine)
    await clock.advance(5_000)
    expect(run.latestCheckpoint).toBeDefined()
  })

  it('prefers what matters more', async () => {
    await using machine = await thin(100_000)
    const { clock, migrator, cable, carries } = machine
    const bytes = Math.round(carries * 80)
    const runs = [0, 3, 0].map((priority, i) =>
      migrator.run(new BulkyWork({ id: `w${i}`, clock, cable, bytes }), { priority }),
    )
    await machine.until(Promise.all(runs.map(({ started }) => started)))
    await clock.advance(1_000)
    alarmed(machine)
    await clock.advance(100_000)
    expect(runs.map(({ latestCheckpoint }) => latestCheckpoint !== undefined)).toEqual([false, true, false])
  })
})

describe('RescueLine', () => {
  it('goes on without one that takes longer than it should, and ends when the loss should have come', async () => {
    const clock = new VirtualClock()
    const started: string[] = []
    const turn = (id: string, ms: number) => ({ id, ms, start: () => started.push(id) })
    const line = new RescueLine(clock, [turn('stuck', 100), turn('next', 100), turn('last', 100)], 10_000)
    expect(started).toEqual(['stuck'])
    expect(line.closedUntil('stuck')).toBe(-Infinity)
    expect(line.closedUntil('next')).toBe(1_200)
    expect(line.closedUntil('a stranger')).toBe(1_200)
    await clock.advance(1_200)
    expect(line.closedUntil('next')).toBe(-Infinity)
    line.done('last')
    line.done('next')
    expect(started).toEqual(['stuck', 'next'])
    expect(line.closedUntil('a stranger')).toBe(-Infinity)
    const slow = new RescueLine(clock, [turn('slow', 60_000), turn('late', 100)], 10_000)
    await clock.advance(10_000)
    expect(slow.closedUntil('late')).toBe(-Infinity)
  })
})
