import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuError, EGpuErrorCode, EGpuManager } from '@egpu/core'
import { simDriver } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mixed, Mixer } from '../helpers/mixer.ts'
import { noise, readBack, write } from '../helpers/states.ts'

const mebibyte = 2 ** 20

function mount(...args: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync('mount', args, { encoding: 'utf8' })
  return status === 0 ? undefined : (error?.message ?? stderr.trim())
}

/** A file system of eight mebibytes. */
async function smallDisk(): Promise<{ readonly directory: string; readonly trouble: string | undefined }> {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-disk-'))
  return { directory, trouble: mount('-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', directory) }
}

describe('a real file system', () => {
  let directory = ''
  let trouble: string | undefined
  beforeEach(async () => {
    ;({ directory, trouble } = await smallDisk())
  })
  afterEach(async () => {
    if (trouble === undefined) spawnSync('umount', ['--lazy', directory])
    await rm(directory, { recursive: true, force: true })
  })

  it('that is full refuses the next checkpoint, keeps the last, and takes one again when there is room', async (context) => {
    context.skip(trouble !== undefined, `mounting needs root: ${trouble}`)
    await using store = directoryStore(directory)
    const token = await store.acquire('job')
    const parts = (progress: number) => ({ part: noise(5 * mebibyte, progress) })
    await write(store, 'job', token, 1, parts(1))
    await expect(write(store, 'job', token, 2, parts(2))).rejects.toThrow(/ENOSPC/)
    const home = join(directory, 'workloads', 'w-job')
    // Nothing of the one that failed is left to fill the disk.
    expect((await readdir(home)).filter((name) => name.endsWith('.pack'))).toHaveLength(1)
    const [record] = await store.list('job')
    expect(record?.progress).toBe(1)
    const found = await readBack(await store.open('job', record?.generation ?? 0))
    expect(Buffer.compare(found['part'] as Uint8Array, parts(1).part)).toBe(0)
    mount('-o', 'remount,size=16m', directory)
    await write(store, 'job', token, 3, parts(3))
    expect((await store.list('job')).map(({ progress }) => progress)).toEqual([3, 1])
  })

  it('that became read-only is told of on the event stream and to whoever asks for a checkpoint; later ones work', async (context) => {
    context.skip(trouble !== undefined, `mounting needs root: ${trouble}`)
    await using manager = await EGpuManager.create({ drivers: [simDriver({ gpus: [{ name: 'inside' }] })] })
    await manager.startMonitoring()
    const failures: EGpuError[] = []
    manager.on('checkpoint-failed', ({ error }) => void failures.push(error))
    await using store = directoryStore(directory)
    await using migrator = new WorkloadMigrator(manager, { store, checkpointIntervalMs: 20 })
    const work = new Mixer({ clock: manager.clock, words: 64, steps: 2_000 })
    const run = migrator.run(work, { keepCheckpoints: true })
    const before = await run.checkpoint()
    mount('-o', 'remount,ro', directory)
    await expect(run.checkpoint()).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointFailed })
    expect(failures.length).toBeGreaterThan(0)
    expect(failures.every((error) => EGpuError.is(error, EGpuErrorCode.CheckpointFailed))).toBe(true)
    expect((await store.list('mixer'))[0]?.progress).toBeGreaterThanOrEqual(before.progress)
    mount('-o', 'remount,rw', directory)
    const after = await run.checkpoint()
    expect(after.generation).toBeGreaterThan(before.generation)
    await run.finished
    expect(work.result).toBe(mixed(64, 2_000))
  })

  it('that was read-only from the start says so, and is a store once it is not', async (context) => {
    context.skip(trouble !== undefined, `mounting needs root: ${trouble}`)
    await writeFile(join(directory, 'notes'), 'by a person')
    mount('-o', 'remount,ro', directory)
    await using store = directoryStore(directory)
    await expect(store.acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringMatching(/is on a file system that is read-only; mount it for writing.*\(EROFS\)/),
    })
    mount('-o', 'remount,rw', directory)
    expect(await store.acquire('job')).toBe(1)
  })

  it('that gets full at any point of a save loses nothing, leaves nothing and says so', async (context) => {
    context.skip(trouble !== undefined, `mounting needs root: ${trouble}`)
    await using store = directoryStore(directory, { chunkBytes: 4_096 })
    const token = await store.acquire('job')
    const home = join(directory, 'workloads', 'w-job')
    const parts = (progress: number) => ({ part: noise(64 * 1_024, progress) })
    await write(store, 'job', token, 1, parts(1))
    const files = (await readdir(home)).length
    const { blocks, bsize, bfree } = await statfs(directory)
    const used = (blocks - bfree) * bsize
    const failures: Error[] = []
    // Up to where all of it fits, a page of the disk at a time.
    for (let room = 0; room < 40; room += 1) {
      mount('-o', `remount,size=${used + room * bsize}`, directory)
      const outcome = await write(store, 'job', token, 2, parts(2)).catch((error: unknown) => error)
      mount('-o', 'remount,size=8m', directory)
      if (outcome instanceof Error) failures.push(outcome)
      else await store.remove('job', (outcome as { generation: number }).generation)
      expect((await store.list('job')).map(({ progress }) => progress)).toEqual([1])
      expect((await readdir(home)).length).toBe(files)
    }
    expect(failures.length).toBeGreaterThan(10)
    expect(failures.length).toBeLessThan(40)
    for (const failure of failures) {
      expect(failure).toMatchObject({ code: EGpuErrorCode.CheckpointFailed, cause: { code: 'ENOSPC' } })
      expect(failure.message).toContain('its disk is full; make room there')
    }
    await write(store, 'job', token, 3, parts(3))
    expect(await readBack(await store.open('job', 1))).toEqual(parts(1))
  })

  it('that is unmounted has not lost its checkpoints, and has them again when it is back', async (context) => {
    context.skip(trouble !== undefined, `mounting needs root: ${trouble}`)
    const place = await mkdtemp(join(tmpdir(), 'egpu-place-'))
    const stick = join(directory, 'stick')
    await mkdir(stick)
    try {
      mount('--bind', stick, place)
      await using store = directoryStore(place)
      const token = await store.acquire('job')
      await write(store, 'job', token, 1, { part: noise(100, 1) })
      spawnSync('umount', [place])
      for (const call of [
        () => store.list('job'),
        () => store.acquire('job'),
        () => write(store, 'job', token, 2, {}),
      ]) {
        await expect(call()).rejects.toMatchObject({
          code: EGpuErrorCode.CheckpointFailed,
          message: expect.stringContaining('its disk unmounted?'),
        })
      }
      expect(await readdir(place)).toEqual([])
      mount('--bind', stick, place)
      expect((await store.list('job')).map(({ progress }) => progress)).toEqual([1])
      await write(store, 'job', token, 2, {})
    } finally {
      spawnSync('umount', [place])
      await rm(place, { recursive: true, force: true })
    }
  })
})
