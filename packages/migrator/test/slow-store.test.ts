import { EGpuErrorCode } from '@egpu/core'
import type { EGpuError } from '@egpu/core'
import { VirtualClock } from '@egpu/driver-sim'
import { CheckpointManager } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { bench } from './helpers/bench.ts'
import { CrashFs } from './helpers/crash-fs.ts'
import { Mixer } from './helpers/mixer.ts'
import { noise, readBack, stateOf } from './helpers/states.ts'

/** A disk that stops at some operation and later goes on. */
function stoppable(): { fs: CrashFs; stopAt: (operation: RegExp) => void; goOn: () => void } {
  const fs = new CrashFs()
  let goOn: () => void = () => undefined
  return {
    fs,
    stopAt(operation) {
      const stopped = new Promise<void>((resolve) => (goOn = resolve))
      fs.hook = (name, path) => (operation.test(`${name} ${path}`) ? stopped : undefined)
    },
    goOn() {
      fs.hook = () => undefined
      goOn()
    },
  }
}

const operations = [
  /open to create .*pack/,
  /^write .*pack/,
  /^sync .*pack/,
  /^sync .*manifest/,
  /^rename/,
  /sync directory/,
  /^list/,
]

describe('a disk that stops', () => {
  it.each(operations)(
    'at %s costs no earlier checkpoint, is told of now and at the next save, and then all is well',
    async (operation) => {
      const { fs, stopAt, goOn } = stoppable()
      const clock = new VirtualClock()
      await using store = directoryStore('/store', { fs, chunkBytes: 64 })
      const manager = new CheckpointManager(store, { clock })
      const token = await manager.acquire('job')
      // More than what is on its way at a time, so that draining has to wait for the disk as well.
      const part = (progress: number) => ({ part: noise(64 * 80, progress) })
      const save = (progress: number): Promise<unknown> =>
        clock.runUntil(manager.save('job', stateOf(progress, part(progress)), { token, stallMs: 1_000 }))
      await save(1)
      stopAt(operation)
      const outcome = await save(2).then(
        () => 'saved',
        (error: unknown) => error,
      )
      // Where only the removal of old ones hangs, which comes after the commit, this one is there.
      expect(outcome === 'saved' ? EGpuErrorCode.CheckpointFailed : (outcome as EGpuError).code).toBe(
        EGpuErrorCode.CheckpointFailed,
      )
      const next = await save(3).then(
        () => 'saved',
        (error: unknown) => error,
      )
      expect(next).toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
      goOn()
      await clock.advance(2_000)
      await save(4)
      const records = await manager.list('job')
      expect(records[0]?.progress).toBe(4)
      expect(records.map(({ progress }) => progress)).toEqual(
        [...records].map(({ progress }) => progress).sort((a, b) => b - a),
      )
      for (const record of records) expect(await readBack(await manager.open(record))).toEqual(part(record.progress))
      expect(await manager.damaged('job')).toEqual([])
      expect(records.length).toBe(2)
    },
  )

  it('does not stop the work, which hears of it on the event stream and ends as ever', async () => {
    const { fs, stopAt, goOn } = stoppable()
    const store = directoryStore('/store', { fs, chunkBytes: 256 })
    await using b = await bench({ store })
    const mixer = new Mixer({ clock: b.clock, steps: 3_000 })
    const run = b.migrator.run(mixer, { keepCheckpoints: true })
    await b.until(run.checkpoint())
    stopAt(/^sync .*pack/)
    await b.clock.advance(1_500)
    expect(b.story().filter((line) => line.includes('checkpoint failed'))).not.toEqual([])
    await expect(b.until(run.checkpoint())).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
    const { progress } = mixer
    await b.clock.advance(100)
    expect(mixer.progress).toBeGreaterThan(progress)
    goOn()
    await b.clock.advance(10)
    const record = await b.until(run.checkpoint())
    expect(record.progress).toBeGreaterThan(progress)
    await b.until(run.finished)
    await store.close()
  })
})
