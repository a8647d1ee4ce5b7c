import type { EGpuDevice, Enclosure } from '@egpu/core'
import { describe, expect, it } from 'vitest'
import { Correlation } from '../src/placement/correlation.ts'
import { Quarantine } from '../src/placement/quarantine.ts'
import { bench } from './helpers/bench.ts'
import { SteadyWork } from './helpers/steady-work.ts'

describe('a device that keeps dying under the same work', () => {
  it('is left alone by that work even if it is asked to go there, and takes other work', async () => {
    await using machine = await bench({ boxes: 1, checkpointIntervalMs: 500, failBackAfterMs: Infinity })
    const { clock, migrator, driver, manager } = machine
    const target = 'sim/sim:gpu-A'
    const heavy = migrator.run(new SteadyWork({ clock, id: 'heavy' }))
    for (let deaths = 0; deaths < 3; deaths += 1) {
      await clock.advance(5_000)
      expect((await machine.until(heavy.moveTo(target))).name).toBe('A')
      await clock.advance(2_000)
      driver.machine.gpu('gpu-A').reset()
    }
    await clock.advance(5_000)
    expect(heavy.where?.name).toBe('CPU')
    await expect(machine.until(heavy.moveTo(target))).rejects.toThrow(/died 3 times within an hour/)
    const id = manager.devices[0]?.id ?? ''
    expect(migrator.quarantined).toEqual([id])
    const light = migrator.run(new SteadyWork({ clock, id: 'light' }), { startOn: target })
    expect((await machine.until(light.started)).name).toBe('A')
    migrator.trust(id)
    expect(migrator.quarantined).toEqual([])
    expect((await machine.until(heavy.moveTo(target))).name).toBe('A')
  })

  it('that hangs or resets it parks where there is nothing else, is told why, and is tried again an hour later', async () => {
    await using machine = await bench({ boxes: 1, cpu: false, checkpointIntervalMs: 500 })
    const { clock, driver, events } = machine
    const told = () => events.flatMap((event) => (event.type === 'migration-failed' ? [event.error.message] : []))
    const run = machine.migrator.run(new SteadyWork({ clock }))
    await machine.until(run.started)
    for (let deaths = 0; deaths < 3; deaths += 1) {
      await clock.advance(5_000)
      // That it could not go elsewhere is told; that it is parked after that has to be told as well.
      await expect(machine.until(run.moveTo('sim/sim:gpu-B'))).rejects.toThrow('no target')
      expect(told().at(-1)).toContain('there is no target sim/sim:gpu-B')
      driver.machine.gpu('gpu-A').reset()
    }
    const diedAt = clock.now()
    await clock.advance(10_000)
    expect(run.state).toBe('parked')
    expect(told().at(-1)).toMatch(/died 3 times within an hour under this work; until .* migrator\.trust\('gpu-/)
    await clock.advance(diedAt + 3_590_000 - clock.now())
    expect(run.state).toBe('parked')
    await clock.advance(20_000)
    expect(run.where?.name).toBe('A')
  })

  it('because its cable comes out goes on with it where there is nothing else', async () => {
    await using machine = await bench({ boxes: 1, cpu: false, checkpointIntervalMs: 500 })
    const { clock, manager, migrator, boxes } = machine
    const run = migrator.run(new SteadyWork({ clock }))
    for (let pulls = 0; pulls < 6; pulls += 1) {
      await clock.advance(5_000)
      expect(run.where?.name).toBe('A')
      boxes[0]?.yank()
      await clock.advance(5_000)
      expect(run.state).toBe('parked')
      boxes[0]?.plug()
    }
    await clock.advance(5_000)
    expect(run.where?.name).toBe('A')
    expect(migrator.quarantined).toEqual([manager.devices[0]?.id])
  })

  it('because its cable comes out is left alone by that work where there is something else, unless it is asked to go', async () => {
    await using machine = await bench({ boxes: 1, checkpointIntervalMs: 500, failBackAfterMs: 100 })
    const { clock, migrator, boxes } = machine
    const target = 'sim/sim:gpu-A'
    const run = migrator.run(new SteadyWork({ clock }), { startOn: target })
    for (let pulls = 0; pulls < 5; pulls += 1) {
      await clock.advance(5_000)
      expect((await machine.until(run.moveTo(target))).name).toBe('A')
      boxes[0]?.yank()
      await clock.advance(5_000)
      boxes[0]?.plug()
    }
    await machine.until(run.close())
    await clock.advance(60_000)
    const other = migrator.run(new SteadyWork({ clock, id: 'other' }))
    expect((await machine.until(other.started)).name).toBe('A')
    const again = migrator.run(new SteadyWork({ clock }))
    expect((await machine.until(again.started)).name).toBe('CPU')
    expect((await machine.until(again.moveTo(target))).name).toBe('A')
  })

  it('is forgiven after an hour; pulled cables take more, and two workloads make it bad for all', () => {
    const quarantine = new Quarantine()
    const minute = 60_000
    for (let i = 0; i < 4; i += 1) quarantine.note('gpu', { workloadId: 'a', atMs: i * minute, isPull: true })
    expect(quarantine.reason('gpu', 'a', 5 * minute)).toBeUndefined()
    quarantine.note('gpu', { workloadId: 'a', atMs: 5 * minute, isPull: true })
    expect(quarantine.reason('gpu', 'a', 6 * minute)).toContain('died 5 times within an hour under this work')
    expect(quarantine.bar('gpu', 'a', 6 * minute)).toBeUndefined()
    expect(quarantine.reason('gpu', 'c', 6 * minute)).toBeUndefined()
    for (let i = 0; i < 3; i += 1) quarantine.note('gpu', { workloadId: 'b', atMs: (6 + i) * minute, isPull: false })
    expect(quarantine.reason('gpu', 'c', 10 * minute)).toContain('a, b')
    expect(quarantine.reason('gpu', 'a', 70 * minute)).toBeUndefined()
  })
})

describe('devices that are lost together', () => {
  const device = (id: string, more: Partial<EGpuDevice> = {}) => ({ id, driver: 'amdgpu', ...more }) as EGpuDevice
  const enclosures: Enclosure[] = [
    { id: 'hub', name: 'a hub' },
    { id: 'box-1', parentId: 'hub' },
    { id: 'box-2', parentId: 'hub' },
    { id: 'box-3', parentId: 'hub' },
  ]

  it('make what shares their hub suspect for a while, and nothing else', () => {
    const correlation = new Correlation()
    const [one, two, three] = [1, 2, 3].map((i) => device(`gpu-${i}`, { enclosureId: `box-${i}`, driver: undefined }))
    if (one === undefined || two === undefined || three === undefined) throw new Error('there are three')
    const apart = device('apart', { driver: 'nvidia' })
    correlation.lost(one, [two, three, apart], enclosures, 0)
    expect(correlation.reason(three, enclosures, 1)).toBeUndefined()
    correlation.lost(two, [three, apart], enclosures, 500)
    expect(correlation.reason(three, enclosures, 501)).toContain('a hub')
    expect(correlation.reason(apart, enclosures, 501)).toBeUndefined()
    expect(correlation.reason(three, enclosures, 60_000)).toBeUndefined()
  })

  it('one after the other have nothing to do with each other, nor do few of many', () => {
    const correlation = new Correlation()
    const many = Array.from({ length: 20 }, (_, i) => device(`gpu-${i}`))
    const [first, second, ...rest] = many
    if (first === undefined || second === undefined) throw new Error('there are twenty')
    correlation.lost(first, [second, ...rest], [], 0)
    correlation.lost(second, rest, [], 10)
    expect(correlation.reason(rest[0] as EGpuDevice, [], 20)).toBeUndefined()
    const slow = new Correlation()
    slow.lost(first, [second], [], 0)
    slow.lost(second, [], [], 60_000)
    expect(slow.reason(device('gpu-x'), [], 60_001)).toBeUndefined()
  })

  it('send the work to the CPU where the rest has the same driver', async () => {
    await using machine = await bench({ boxes: 3, checkpointIntervalMs: 500, failBackAfterMs: Infinity })
    const { clock, migrator, boxes } = machine
    const run = migrator.run(new SteadyWork({ clock }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(2_000)
    boxes[1]?.yank()
    boxes[0]?.yank()
    await clock.advance(2_000)
    expect(run.where?.name).toBe('CPU')
  })
})
