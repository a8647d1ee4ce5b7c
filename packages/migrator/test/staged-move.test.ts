import { describe, expect, it } from 'vitest'
import { RangeSet } from '../src/transfer/range-set.ts'
import { bench } from './helpers/bench.ts'
import type { Bench } from './helpers/bench.ts'
import { contractBreaches, migrationBreaches } from './helpers/bookkeeping.ts'
import { pagedReference, PagedWork } from './helpers/paged-work.ts'
import type { PagedCall } from './helpers/paged-work.ts'

const reference = pagedReference(64, 4_096, 400, 1)
const to = 'sim/sim:gpu-B'

const rtoOf = ({ events }: Bench): number => {
  const completed = events.find(({ type }) => type === 'migration-completed')
  if (completed?.type !== 'migration-completed') throw new Error('nothing was completed')
  return completed.migration.rtoMs
}

describe('work that can be copied while it goes on', () => {
  it('is moved without being restored, stands still for the last changes only, and ends the same bit for bit', async () => {
    await using machine = await bench({ boxes: 2, downtimeMs: 5, checkpointIntervalMs: 100_000 })
    const { clock, migrator, boxes } = machine
    // 256 KiB over about 10 MB/s: 26 ms one way, with the work going on.
    for (const box of boxes) box.degradeLink({ lanes: 1, gbpsPerLane: 0.1 })
    const work = new PagedWork({ clock })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(100)
    const before = work.progress
    await machine.until(run.moveTo(to))
    expect(run.where?.name).toBe('B')
    expect(work.calls.filter((call) => call.startsWith('restore'))).toHaveLength(1)
    expect(work.progress).toBeGreaterThan(before + 10)
    expect(machine.steps()).toEqual(
      expect.arrayContaining(['reserved', 'checked', 'transferring', 'frozen', 'verified', 'committed', 'released']),
    )
    await machine.until(run.finished)
    expect(work.result).toBe(reference)
    expect(machine.events).toContainEqual(
      expect.objectContaining({ type: 'migration-completed', migration: expect.objectContaining({ lostProgress: 0 }) }),
    )
  })

  it('is saved again soon after, from what changed, and survives the loss of its new target', async () => {
    await using machine = await bench({ boxes: 2, checkpointIntervalMs: 50 })
    const { clock, migrator, boxes } = machine
    const work = new PagedWork({ clock })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(120)
    await machine.until(run.moveTo(to))
    await clock.advance(120)
    boxes[1]?.yank()
    await machine.until(run.finished)
    expect(work.result).toBe(reference)
  })

  it.each([
    ['stage', 'throw'],
    ['stage', 'hang'],
    ['write', 'throw'],
    ['write', 'hang'],
    ['read back', 'throw'],
    ['adopt', 'throw'],
    ['adopt', 'hang'],
    ['suspend', 'hang'],
  ] as const)('whose %s %ss goes on where it was, and can be moved the next time', async (broken: PagedCall, how) => {
    await using machine = await bench({ boxes: 2, migrationTimeoutMs: 200, checkpointIntervalMs: 100_000 })
    const { clock, migrator } = machine
    let isBroken = true
    const work = new PagedWork({
      clock,
      steps: 2_000,
      fault: (call) => (isBroken && call === broken ? how : undefined),
    })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(50)
    await expect(machine.until(run.moveTo(to))).rejects.toBeInstanceOf(Error)
    expect(run.where?.name).toBe('A')
    expect(machine.steps().at(-1)).toBe('rolled-back')
    isBroken = false
    const { progress } = work
    await clock.advance(50)
    expect(work.progress).toBeGreaterThan(progress)
    // A target that failed is left alone for a second.
    await clock.advance(1_000)
    await machine.until(run.moveTo(to))
    await machine.until(run.finished)
    expect(work.result).toBe(pagedReference(64, 4_096, 2_000, 1))
    expect(contractBreaches(work)).toEqual([])
    expect(migrationBreaches(machine.events)).toEqual([])
  })

  it('whose bytes arrive wrong is not moved', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const work = new PagedWork({ clock, spoil: true })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(50)
    await expect(machine.until(run.moveTo(to))).rejects.toThrow(/is not on the target what was sent/)
    expect(run.where?.name).toBe('A')
    await machine.until(run.finished)
    expect(work.result).toBe(reference)
  })

  it.each([0, 1])('loses nothing that was saved when cable %i is pulled at any moment of the move', async (pulled) => {
    for (let at = 0; at < 70; at += 7) {
      await using machine = await bench({ boxes: 3, downtimeMs: 2, checkpointIntervalMs: 40 })
      const { clock, migrator, boxes } = machine
      for (const box of boxes) box.degradeLink({ lanes: 1, gbpsPerLane: 0.1 })
      const work = new PagedWork({ clock, pages: 32, steps: 300 })
      const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
      await clock.advance(100)
      run.moveTo(to).catch(() => undefined)
      await clock.advance(at)
      boxes[pulled]?.yank()
      await machine.until(run.finished)
      expect(work.result).toBe(pagedReference(32, 4_096, 300, 1))
      expect(contractBreaches(work)).toEqual([])
      expect(migrationBreaches(machine.events)).toEqual([])
    }
  })

  it('that changes faster than it can be copied is stopped and moved all the same', async () => {
    await using machine = await bench({ boxes: 2, downtimeMs: 1, checkpointIntervalMs: 100_000 })
    const { clock, migrator, boxes } = machine
    for (const box of boxes) box.degradeLink({ lanes: 1, gbpsPerLane: 0.1 })
    const work = new PagedWork({ clock, perStep: 16 })
    const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
    await clock.advance(50)
    await machine.until(run.moveTo(to))
    expect(rtoOf(machine)).toBeLessThan(1_000)
    await machine.until(run.finished)
    expect(work.result).toBe(pagedReference(64, 4_096, 400, 16))
  })
})

describe('a run that is over', () => {
  it('refuses to be moved', async () => {
    await using machine = await bench({ boxes: 2 })
    const { clock, migrator } = machine
    const run = migrator.run(new PagedWork({ clock, steps: 10 }))
    await machine.until(run.finished)
    await expect(machine.until(run.moveTo(to))).rejects.toMatchObject({ code: 'EGPU_CLOSED' })
  })
})

describe('RangeSet', () => {
  it('counts each byte once and cuts off what is outside', () => {
    const due = new RangeSet([{ name: 'a', byteLength: 100 }])
    due.add([
      { part: 'a', byteOffset: 10, byteLength: 20 },
      { part: 'a', byteOffset: 25, byteLength: 10 },
      { part: 'a', byteOffset: 90, byteLength: 50 },
      { part: 'b', byteOffset: 0, byteLength: 5 },
      { part: 'a', byteOffset: 50, byteLength: 0 },
    ])
    expect(due.bytes).toBe(35)
    expect(due.take()).toEqual([
      { part: 'a', byteOffset: 10, byteLength: 25 },
      { part: 'a', byteOffset: 90, byteLength: 10 },
    ])
    expect(due.bytes).toBe(0)
    due.add(undefined)
    expect(due.bytes).toBe(100)
  })
})
