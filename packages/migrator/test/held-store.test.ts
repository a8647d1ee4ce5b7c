import { EGpuErrorCode } from '@egpu/core'
import { memoryStore, RunState } from '@egpu/migrator'
import type { CheckpointStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { CrashFs } from './helpers/crash-fs.ts'
import { mixed, Mixer } from './helpers/mixer.ts'
import { notebook } from './helpers/notebook.ts'

const reference = mixed(256, 1_000)

const inUse = {
  code: EGpuErrorCode.CheckpointFailed,
  message: expect.stringMatching(/another store of this process uses \/store; close that one first, or give/),
}

describe('work whose store another migrator uses', () => {
  it('is told so by `started`, waits, and begins once the store is free', async () => {
    const fs = new CrashFs()
    const store = directoryStore('/store', { fs })
    const holder = directoryStore('/store', { fs })
    await holder.acquire('other')
    await using machine = await bench({ store })
    const { clock, migrator } = machine
    const mixer = new Mixer({ clock })
    const run = migrator.run(mixer)
    await expect(machine.until(run.started)).rejects.toMatchObject(inUse)
    expect(run.state).toBe(RunState.Parked)
    expect(machine.events).toContainEqual(
      expect.objectContaining({
        type: 'migration-failed',
        error: expect.objectContaining({ message: expect.stringContaining('another store of this process uses') }),
      }),
    )
    await clock.advance(60_000)
    expect(mixer.calls.filter((call) => call.startsWith('resume'))).toEqual([])
    await holder.close()
    await machine.until(run.finished)
    expect(mixer.result).toBe(reference)
    await store.close()
  })

  it('is told so after a crash as well, and goes on from where it was', async () => {
    const fs = new CrashFs()
    const journal = notebook()
    const before = directoryStore('/store', { fs })
    // The first process is simply not heard of again, but what it held is held.
    const dead = await bench({ store: before, journal })
    const interrupted = dead.migrator.run(new Mixer({ clock: dead.clock }))
    await dead.clock.advance(450)
    const progress = interrupted.latestCheckpoint?.progress
    expect(progress).toBeGreaterThan(0)
    const store = directoryStore('/store', { fs })
    await using machine = await bench({ store, journal })
    const [record] = await machine.until(machine.migrator.interrupted())
    expect(record?.workloadId).toBe('mixer')
    const mixer = new Mixer({ clock: machine.clock })
    const run = machine.migrator.run(mixer)
    await expect(machine.until(run.started)).rejects.toMatchObject(inUse)
    expect(run.state).toBe(RunState.Parked)
    await before.close()
    await machine.until(run.finished)
    expect(mixer.calls.find((call) => call.startsWith('restore'))).toBe(`restore ${progress} on A`)
    expect(mixer.result).toBe(reference)
    await store.close()
  })

  it('can be given up with `close`', async () => {
    const fs = new CrashFs()
    const store = directoryStore('/store', { fs })
    const holder = directoryStore('/store', { fs })
    await holder.acquire('other')
    await using machine = await bench({ store })
    const run = machine.migrator.run(new Mixer({ clock: machine.clock }))
    await expect(machine.until(run.started)).rejects.toMatchObject(inUse)
    await machine.until(run.close())
    await expect(run.finished).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
    await holder.close()
    await store.close()
  })
})

it('work whose store does not answer is told so by `started`, and begins once it does', async () => {
  let isHung = true
  const inner = memoryStore()
  const store: CheckpointStore = {
    ...inner,
    list: async (...args) => {
      if (isHung) await new Promise(() => undefined)
      return inner.list(...args)
    },
  }
  await using machine = await bench({ store })
  const mixer = new Mixer({ clock: machine.clock })
  const run = machine.migrator.run(mixer)
  await expect(machine.until(run.started)).rejects.toMatchObject({
    code: EGpuErrorCode.CheckpointFailed,
    message: expect.stringContaining('the checkpoint store does not answer'),
  })
  isHung = false
  await machine.until(run.finished)
  expect(mixer.result).toBe(reference)
})

it('work that merely finds no target yet goes on waiting for one', async () => {
  await using machine = await bench({ boxes: 0, cpu: false })
  const run = machine.migrator.run(new Mixer({ clock: machine.clock }))
  let said: string | undefined
  run.started.then(
    () => (said = 'started'),
    () => (said = 'failed'),
  )
  await machine.clock.advance(600_000)
  expect(run.state).toBe(RunState.Parked)
  expect(said).toBeUndefined()
  await machine.until(run.close())
  expect(said).toBe('failed')
})
