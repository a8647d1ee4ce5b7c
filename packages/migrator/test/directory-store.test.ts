import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode, systemClock } from '@egpu/core'
import { CheckpointManager } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noise, readBack, stateOf, write } from './helpers/states.ts'

let directory = ''
const open: DirectoryStore[] = []
const storeIn = (path: string = directory): DirectoryStore => {
  const store = directoryStore(path, { chunkBytes: 256 })
  open.push(store)
  return store
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'egpu-store-'))
})
afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  await rm(directory, { recursive: true, force: true })
})

const home = (): string => join(directory, 'workloads', 'w-job')
const files = async (end: string): Promise<string[]> =>
  (await readdir(home())).filter((name) => name.endsWith(end)).sort((a, b) => a.localeCompare(b))
const sizes = async (): Promise<number> => {
  const packs = await files('.pack')
  const contents = await Promise.all(packs.map((name) => readFile(join(home(), name))))
  return contents.reduce((sum, { byteLength }) => sum + byteLength, 0)
}

describe('directoryStore', () => {
  it('gives back exactly what was saved, also to another process later', async () => {
    const store = storeIn()
    const parts = { field: noise(5_000, 1), empty: new Uint8Array(), small: noise(3, 2) }
    const record = await write(store, 'job', await store.acquire('job'), 7, parts)
    expect(record).toMatchObject({ workloadId: 'job', generation: 1, progress: 7, byteLength: 5_003 })
    await store.close()
    const later = storeIn()
    expect(await later.workloads()).toEqual(['job'])
    const state = await later.open('job', 1)
    expect(state.progress).toBe(7)
    expect(await readBack(state)).toEqual(parts)
    await later.verify('job', 1)
  })

  it('writes only chunks whose content is new', async () => {
    const store = storeIn()
    const token = await store.acquire('job')
    const field = noise(256 * 40, 1)
    await write(store, 'job', token, 1, { field })
    const before = await sizes()
    expect(before).toBe(256 * 40)
    field[256 * 7] = (field[256 * 7] ?? 0) ^ 1
    field[256 * 20] = (field[256 * 20] ?? 0) ^ 1
    await write(store, 'job', token, 2, { field })
    expect((await sizes()) - before).toBe(2 * 256)
    await write(store, 'job', token, 3, { field })
    expect((await sizes()) - before).toBe(2 * 256)
    expect(await readBack(await store.open('job', 3))).toEqual({ field })
  })

  it('keeps the same bytes once within one checkpoint', async () => {
    const store = storeIn()
    await write(store, 'job', await store.acquire('job'), 1, { zeros: new Uint8Array(256 * 100) })
    expect(await sizes()).toBe(256)
  })

  it('does not let dead bytes pile up', async () => {
    const store = storeIn()
    const manager = new CheckpointManager(store, { clock: systemClock })
    const token = await manager.acquire('job')
    for (let progress = 0; progress < 60; progress += 1) {
      const fields = Object.fromEntries(
        Array.from({ length: 8 }, (_, i) => [`f${i}`, noise(256, i === progress % 8 ? progress : -i)]),
      )
      await manager.save('job', stateOf(progress, fields), { token })
    }
    expect(await files('.manifest')).toHaveLength(2)
    expect(await sizes()).toBeLessThanOrEqual(256 * 8 * 6)
    await manager.close()
  })

  it('names files so that no workload id leads anywhere else', async () => {
    const store = storeIn()
    const ids = ['../../evil', '/etc/passwd', '.', '..', '', 'CON', 'a/b', 'A', 'a', 'ünï', 'x'.repeat(200)]
    for (const id of ids) await write(store, id, await store.acquire(id), 1, { part: noise(10, 1) })
    expect([...(await store.workloads())].sort()).toEqual([...ids].sort())
    const names = await readdir(join(directory, 'workloads'))
    expect(names).toHaveLength(ids.length)
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(ids.length)
    await expect(store.acquire('x'.repeat(300))).rejects.toThrow(TypeError)
  })

  it('removes what a crash left behind, and only that', async () => {
    const store = storeIn()
    await write(store, 'job', await store.acquire('job'), 1, { part: noise(1_000, 1) })
    await store.close()
    await writeFile(join(home(), `${'0'.repeat(32)}.pack`), 'half a checkpoint')
    await writeFile(join(home(), '000000000002.manifest.abc.tmp'), 'half a manifest')
    await writeFile(join(home(), 'notes.txt'), 'by a person')
    const later = storeIn()
    await later.list('job')
    expect(await files('.tmp')).toEqual([])
    expect(await files('.pack')).toHaveLength(1)
    expect(await files('.txt')).toEqual(['notes.txt'])
    await later.verify('job', 1)
  })
})

describe('a writer that was superseded', () => {
  it('is refused when it begins and when it commits', async () => {
    const store = storeIn()
    const old = await store.acquire('job')
    const writer = await store.begin({
      workloadId: 'job',
      token: old,
      progress: 1,
      parts: [{ name: 'p', byteLength: 1 }],
    })
    await writer.append('p', new Uint8Array(1))
    const token = await store.acquire('job')
    expect(token).toBeGreaterThan(old)
    await expect(writer.commit()).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    await writer.discard()
    await expect(write(store, 'job', old, 1, {})).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    expect(await store.list('job')).toEqual([])
    expect(await files('.pack')).toEqual([])
  })
})

describe('two checkpoints being written at a time', () => {
  it('are both safe from what removes the leftovers of others', async () => {
    const store = storeIn()
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, { part: noise(100, 1) })
    const begin = (progress: number) =>
      store.begin({ workloadId: 'job', token, progress, parts: [{ name: 'part', byteLength: 1_000 }] })
    const [second, third] = [await begin(2), await begin(3)]
    await second.append('part', noise(1_000, 2))
    await third.append('part', noise(1_000, 3))
    await store.remove('job', 1)
    await second.commit()
    await third.commit()
    for (const { generation, progress } of await store.list('job')) {
      expect(await readBack(await store.open('job', generation))).toEqual({ part: noise(1_000, progress) })
    }
    expect(await files('.pack')).toHaveLength(2)
  })
})

describe('a damaged checkpoint', () => {
  const first = { field: noise(600, 1), other: noise(50, 3) }
  const second = { field: noise(600, 2), other: noise(50, 4) }

  async function twoGenerations(): Promise<void> {
    const store = storeIn()
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, first)
    await write(store, 'job', token, 2, second)
    await store.close()
  }

  /** How reading the newest goes: its error, or its content. */
  async function newest(): Promise<{ code: unknown; message: string } | Record<string, Uint8Array>> {
    const store = storeIn()
    try {
      const damaged = await store.damaged('job')
      if (damaged[0] !== undefined) throw damaged[0].error
      const [record] = await store.list('job')
      return await readBack(await store.open('job', record?.generation ?? 0))
    } catch (error) {
      return error as { code: unknown; message: string }
    } finally {
      await store.close()
    }
  }

  it('is found when any of its files is cut short, empty or missing: a copy that was not finished', async () => {
    await twoGenerations()
    const [, manifest = ''] = await files('.manifest')
    const content = await readFile(join(home(), manifest), 'latin1')
    const pack = (await files('.pack')).find((name) => content.includes(name)) ?? ''
    for (const name of [manifest, pack]) {
      const path = join(home(), name)
      const good = await readFile(path)
      for (const length of [0, 1, good.byteLength >> 1, good.byteLength - 1]) {
        await truncate(path, length)
        expect(await newest()).toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
        await writeFile(path, good)
      }
    }
    await rename(join(home(), pack), join(directory, 'elsewhere'))
    const found = await newest()
    expect(found).toMatchObject({
      code: EGpuErrorCode.CheckpointCorrupt,
      message: expect.stringContaining('copied only in part'),
    })
  })

  it('of a newer format is named as that, and nothing it may need is removed', async () => {
    await twoGenerations()
    const [, manifest = ''] = await files('.manifest')
    const path = join(home(), manifest)
    await writeFile(path, (await readFile(path, 'latin1')).replace('egpu-checkpoint 2 ', 'egpu-checkpoint 3 '))
    const packs = await files('.pack')
    expect(await newest()).toMatchObject({ message: expect.stringContaining('format version 3') })
    expect(await files('.pack')).toEqual(packs)
    const store = storeIn()
    const token = await store.acquire('job')
    expect((await write(store, 'job', token, 3, first)).generation).toBe(3)
  })

  it('whose manifest was put together with intent is refused, whatever it says', async () => {
    await twoGenerations()
    const [, manifest = ''] = await files('.manifest')
    const path = join(home(), manifest)
    const body = JSON.parse((await readFile(path, 'utf8')).split('\n')[1] ?? '') as {
      packs: string[]
      parts: { name: string; byteLength: number; chunks: unknown[][] }[]
    }
    const chunk = body.parts[0]?.chunks[0] ?? []
    const sealed = async (change: (copy: typeof body) => unknown): Promise<void> => {
      const copy = structuredClone(body)
      const text = JSON.stringify(change(copy) ?? copy)
      await writeFile(path, `egpu-checkpoint 2 ${createHash('sha256').update(text).digest('hex')}\n${text}`)
    }
    const tricks: ((copy: typeof body) => unknown)[] = [
      (copy) => void (copy.packs[0] = '../../../../etc/passwd'),
      (copy) => void (copy.packs[0] = '/etc/passwd'),
      (copy) => void (copy.packs[0] = `${'0'.repeat(32)}.pack/../../x`),
      (copy) => ({ ...copy, packs: 'all' }),
      (copy) => ({ ...copy, parts: [...copy.parts, copy.parts[0]] }),
      (copy) => ({ ...copy, workloadId: 'another' }),
      (copy) => ({ ...copy, generation: 9 }),
      (copy) => ({ ...copy, generation: -1 }),
      (copy) => ({ ...copy, progress: '5' }),
      (copy) => ({ ...copy, parts: [{ name: 'field', byteLength: 1e15, chunks: [[0, 0, 1e15, 0, chunk[4]]] }] }),
      (copy) => ({ ...copy, parts: [{ name: 'field', byteLength: 5, chunks: [chunk] }] }),
      (copy) => ({ ...copy, parts: [{ name: 'field', byteLength: 256, chunks: [[7, ...chunk.slice(1)]] }] }),
      (copy) => ({ ...copy, parts: [{ name: 'field', byteLength: 256, chunks: [[0, 1e9, 256, chunk[3], chunk[4]]] }] }),
      (copy) => ({ ...copy, parts: [{ name: 'field', byteLength: 256, chunks: [[0, 0.5, 256, chunk[3], chunk[4]]] }] }),
      () => 'null',
      () => [],
    ]
    for (const trick of tricks) {
      await sealed(trick)
      expect(await newest()).toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
    }
  })

  it.skipIf(process.platform === 'win32')('does not follow symbolic links out of the store', async () => {
    await twoGenerations()
    const outside = join(directory, 'outside')
    const [, manifest = ''] = await files('.manifest')
    const content = await readFile(join(home(), manifest), 'latin1')
    const pack = (await files('.pack')).find((name) => content.includes(name)) ?? ''
    await rename(join(home(), pack), outside)
    await symlink(outside, join(home(), pack))
    expect(await newest()).toMatchObject({ message: expect.stringContaining('symbolic link') })
    await symlink(directory, join(directory, 'workloads', 'w-other'))
    const store = storeIn()
    expect(await store.workloads()).toEqual(['job'])
    await expect(store.acquire('other')).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
  })

  it('that rotted on the disk does not spoil the ones that share its chunks for good', async () => {
    const field = noise(256 * 16, 5)
    const store = storeIn()
    const token = await store.acquire('job')
    await write(store, 'job', token, 1, { field })
    const [pack = ''] = await files('.pack')
    const bytes = await readFile(join(home(), pack))
    bytes[256 * 3] = (bytes[256 * 3] ?? 0) ^ 4
    await writeFile(join(home(), pack), bytes)
    for (let progress = 2; progress <= 18; progress += 1) await write(store, 'job', token, progress, { field })
    expect(await readBack(await store.open('job', 18))).toEqual({ field })
  })
})

describe('two migrators on one store', () => {
  it('are kept apart by a lock that says who has it', async () => {
    const store = storeIn()
    await store.acquire('job')
    const second = storeIn()
    await expect(second.acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringContaining('another store of this process uses'),
    })
    await store.close()
    await store.close()
    expect(await second.acquire('job')).toBe(2)
    await expect(store.list('job')).rejects.toMatchObject({ code: EGpuErrorCode.Closed })
  })

  it('may follow each other when the first died without a word', async () => {
    const path = new URL('./helpers/die-holding-a-store.ts', import.meta.url).pathname
    const died = spawnSync(process.execPath, ['--conditions=@egpu/source', '--import=tsx', path, directory], {
      encoding: 'utf8',
      cwd: new URL('..', import.meta.url).pathname,
    })
    expect(died.stderr).toBe('')
    expect(died.signal).toBe('SIGKILL')
    expect(await readdir(directory)).toContain('lock')
    // One that died as it was taking over the lock of yet another.
    await writeFile(join(directory, 'lock.0123.left'), '{}')
    const store = storeIn()
    expect((await store.list('job'))[0]).toMatchObject({ progress: 5 })
    expect(await store.acquire('job')).toBe(2)
    expect((await readdir(directory)).sort((a, b) => a.localeCompare(b))).toEqual(['lock', 'workloads'])
  })

  it('are no two when one of them only has a copy', async () => {
    const store = storeIn()
    await write(store, 'job', await store.acquire('job'), 1, { part: noise(100, 1) })
    const copy = `${directory}-copy`
    await cp(directory, copy, { recursive: true })
    const second = storeIn(copy)
    expect(await second.list('job')).toHaveLength(1)
    await second.close()
    await rm(copy, { recursive: true })
  })

  it('cannot publish once the lock was taken away from under one', async () => {
    const store = storeIn()
    const token = await store.acquire('job')
    await rm(join(directory, 'lock'))
    const second = storeIn()
    await second.list('job')
    await expect(write(store, 'job', token, 1, { part: noise(100, 1) })).rejects.toMatchObject({
      code: EGpuErrorCode.StaleEpoch,
    })
    expect(await second.list('job')).toEqual([])
  })
})
