import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RuntimeKind } from '@egpu/core'
import { memoryStore } from '@egpu/migrator'
import type { DeviceRecord, JournalRecord } from '@egpu/migrator'
import { directoryJournal } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { mixed, Mixer } from './helpers/mixer.ts'
import { notebook } from './helpers/notebook.ts'
import { SteadyWork } from './helpers/steady-work.ts'

const reference = mixed(256, 1_000)

describe('a migrator with a journal', () => {
  it('goes on where the process before was when it died, and brings work back home from there', async () => {
    const journal = notebook()
    const store = memoryStore()
    // The first process is simply not heard of again.
    const before = await bench({ boxes: 2, journal, store, failBackAfterMs: 300 })
    const run = before.migrator.run(new Mixer({ clock: before.clock }), { startOn: 'sim/sim:gpu-A' })
    await before.clock.advance(150)
    before.boxes[0]?.yank()
    await before.clock.advance(120)
    expect(run.where?.name).toBe('B')
    expect(journal.records.get('mixer')).toMatchObject({ where: { name: 'B' }, homes: [{ name: 'A' }] })

    await using machine = await bench({ boxes: 2, journal, store, failBackAfterMs: 300 })
    const { clock, migrator } = machine
    expect(await migrator.interrupted()).toMatchObject([{ workloadId: 'mixer', where: { name: 'B' } }])
    const mixer = new Mixer({ clock })
    const again = migrator.run(mixer)
    expect((await machine.until(again.started)).name).toBe('B')
    expect(mixer.progress).toBeGreaterThan(0)
    await clock.advance(500)
    expect(again.where?.name).toBe('A')
    await machine.until(again.finished)
    expect(mixer.result).toBe(reference)
    await clock.advance(10)
    expect(await migrator.interrupted()).toEqual([])
    expect(journal.records.size).toBe(0)
  })

  it('finishes a move that the process before had begun', async () => {
    const journal = notebook()
    const store = memoryStore()
    const before = await bench({ boxes: 2, journal, store })
    const held = new Mixer({
      clock: before.clock,
      fault: (call, target) => (call === 'restore' && target?.target.name === 'B' ? 'hang' : undefined),
    })
    const run = before.migrator.run(held, { startOn: 'sim/sim:gpu-A' })
    await before.clock.advance(150)
    run.moveTo('sim/sim:gpu-B').catch(() => undefined)
    await before.clock.advance(20)
    expect(journal.records.get('mixer')).toMatchObject({ moving: { reason: 'requested', to: { name: 'B' } } })

    await using machine = await bench({ boxes: 2, journal, store })
    const again = machine.migrator.run(new Mixer({ clock: machine.clock }))
    expect((await machine.until(again.started)).name).toBe('B')
  })

  it('remembers what died under a workload, so that a restart does not give it three more', async () => {
    const journal = notebook()
    const store = memoryStore()
    const options = { boxes: 3, journal, store, checkpointIntervalMs: 50, failBackAfterMs: Infinity }
    const before = await bench(options)
    const mixer = new Mixer({ clock: before.clock, runtimes: [RuntimeKind.Simulated] })
    const run = before.migrator.run(mixer)
    await before.clock.advance(120)
    for (let victims = 0; victims < 2; victims += 1) {
      before.driver.machine.gpu(`gpu-${run.where?.name}`).wedge()
      await before.clock.advance(20)
    }
    expect(journal.records.get('mixer')?.victims).toHaveLength(2)
    await using machine = await bench(options)
    const again = machine.migrator.run(new Mixer({ clock: machine.clock, runtimes: [RuntimeKind.Simulated] }), {
      startOn: 'sim/sim:gpu-C',
    })
    again.finished.catch(() => undefined)
    await machine.until(again.started)
    machine.driver.machine.gpu('gpu-C').wedge()
    await expect(machine.until(again.finished)).rejects.toThrow(/when A, B, C died/)
  })

  it('remembers what went wrong with a device, and that nothing did where it was ejected', async () => {
    const journal = notebook()
    const options = { boxes: 3, journal, checkpointIntervalMs: 50, failBackAfterMs: 60_000 }
    const before = await bench(options)
    const { clock, migrator, manager, boxes } = before
    const [a = '', b = '', c = ''] = manager.devices.map(({ id }) => id)
    const run = migrator.run(new Mixer({ clock, steps: 1e6 }), { startOn: 'sim/sim:gpu-A' })
    await clock.advance(120)
    for (let i = 0; i < 3; i += 1) {
      boxes[0]?.yank()
      await clock.advance(20)
      boxes[0]?.plug()
      await clock.advance(20)
    }
    // The first has no work on it, the second has.
    for (const [place, id] of [c, b].entries()) {
      await before.until(manager.safeDisconnect(id))
      boxes[2 - place]?.yank()
      await clock.advance(20)
    }
    expect(run.where?.name).toBe('CPU')
    expect(journal.devices.get(a)?.faultsAtMs).toHaveLength(3)
    expect(journal.devices.get(a)?.deaths).toMatchObject([{ workloadId: 'mixer', isPull: true }])
    expect([...journal.devices.keys()]).toEqual([a])

    // A device that was lost three times just now has to wait: a minute, doubled twice.
    await using machine = await bench(options)
    const again = machine.migrator.run(new SteadyWork({ clock: machine.clock }))
    expect((await machine.until(again.started)).name).toBe('B')
    await using stranger = await bench({ ...options, journal: notebook() })
    const fresh = stranger.migrator.run(new SteadyWork({ clock: stranger.clock }))
    expect((await stranger.until(fresh.started)).name).toBe('A')
  })

  it('keeps a device in quarantine beyond the end of the process, until it is trusted again', async () => {
    const journal = notebook()
    const wall = Date.now()
    const deaths = [1, 2, 3].map((ago) => ({ workloadId: 'mixer', atMs: wall - ago * 60_000, isPull: false }))
    {
      await using first = await bench({ journal: notebook() })
      journal.devices.set(first.manager.devices[0]?.id ?? '', {
        key: first.manager.devices[0]?.id ?? '',
        faultsAtMs: deaths.map(({ atMs }) => atMs),
        deaths,
      })
    }
    await using machine = await bench({ journal })
    const { clock, migrator, manager } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    expect((await machine.until(run.started)).name).toBe('CPU')
    const id = manager.devices[0]?.id ?? ''
    expect(migrator.quarantined).toEqual([id])
    migrator.trust(id)
    await clock.advance(10)
    expect(migrator.quarantined).toEqual([])
    expect(journal.devices.get(id)).toMatchObject({ deaths: [], faultsAtMs: { length: 3 } })
  })

  it('that gives nonsense about devices costs nothing but that', async () => {
    const journal = notebook()
    journal.loadDevices = async () => [null, 7, {}, { key: 'gpu', faultsAtMs: [NaN], deaths: [null] }] as never
    await using machine = await bench({ boxes: 1, journal })
    const mixer = new Mixer({ clock: machine.clock })
    await machine.until(machine.migrator.run(mixer).finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toEqual([])
  })

  it.each(['throw', 'hang'] as const)('that %ss works all the same, and says so', async (how) => {
    await using machine = await bench({ boxes: 2, journal: notebook(() => how), migrationTimeoutMs: 200 })
    const mixer = new Mixer({ clock: machine.clock })
    await machine.until(machine.migrator.run(mixer).finished)
    expect(mixer.result).toBe(reference)
    expect(machine.story()).toContain('mixer checkpoint failed: EGPU_CHECKPOINT_FAILED')
  })
})

describe('directoryJournal', () => {
  it('gives back what was written whole, leaves out what was damaged, and takes any id', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'egpu-journal-'))
    try {
      const record = (workloadId: string): JournalRecord => ({
        workloadId,
        priority: 1,
        homes: [],
        victims: [['gpu', 'a GPU']],
        victimsSince: 4,
      })
      const ids = ['a', '../../etc/passwd', 'x'.repeat(5_000), '', '.']
      const journal = directoryJournal(join(directory, 'journal'))
      for (const id of ids) await journal.write(record(id))
      await journal.write({ ...record('a'), priority: 2 })
      await journal.remove('.')
      await journal.remove('never there')
      await writeFile(join(directory, 'journal', 'torn.json'), '{"workloadId": "to')
      await writeFile(join(directory, 'journal', 'odd.json'), 'null')
      const found = await directoryJournal(join(directory, 'journal')).load()
      expect(found.map(({ workloadId }) => workloadId).sort()).toEqual(['', '../../etc/passwd', 'a', 'x'.repeat(5_000)])
      expect(found.find(({ workloadId }) => workloadId === 'a')).toEqual({ ...record('a'), priority: 2 })
      expect(await readdir(directory)).toEqual(['journal'])
      const device: DeviceRecord = {
        key: '../gpu',
        faultsAtMs: [1, 2],
        deaths: [{ workloadId: 'a', atMs: 2, isPull: false }],
      }
      await journal.writeDevice?.(device)
      await writeFile(join(directory, 'journal', 'devices', 'torn.json'), '{"key": "gpu", "faultsAtMs": [1,')
      await writeFile(
        join(directory, 'journal', 'devices', 'odd.json'),
        '{"key": "gpu", "faultsAtMs": ["x"], "deaths": []}',
      )
      const again = directoryJournal(join(directory, 'journal'))
      expect(await again.loadDevices?.()).toEqual([device])
      expect(await again.load()).toHaveLength(4)
    } finally {
      await rm(directory, { recursive: true })
    }
  })
})
