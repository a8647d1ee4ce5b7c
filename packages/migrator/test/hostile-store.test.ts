import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode, systemClock } from '@egpu/core'
import { CheckpointManager, exportCheckpoint, importCheckpoint, memoryStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asNobody } from './helpers/as-nobody.ts'
import { noise, readBack, stateOf, write } from './helpers/states.ts'

let directory = ''
const open: DirectoryStore[] = []
const storeIn = (path: string = directory): DirectoryStore => {
  const store = directoryStore(path, { chunkBytes: 256 })
  open.push(store)
  return store
}
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'egpu-hostile-'))
})
afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
  await rm(directory, { recursive: true, force: true })
})

const home = (): string => join(directory, 'workloads', 'w-job')
const partsOf = (progress: number) => ({ field: noise(600, progress) })

async function twoGenerations(): Promise<{ manifest: string; pack: string }> {
  const store = storeIn()
  const token = await store.acquire('job')
  await write(store, 'job', token, 1, partsOf(1))
  await write(store, 'job', token, 2, partsOf(2))
  await store.close()
  const content = await readFile(join(home(), '000000000002.manifest'), 'latin1')
  const pack = (await readdir(home())).find((name) => name.endsWith('.pack') && content.includes(name)) ?? ''
  return { manifest: join(home(), '000000000002.manifest'), pack: join(home(), pack) }
}

/** The newest cannot be used and is told of, the one before it can, and the next save and what it gives are sound. */
async function expectOlderOneUsed(): Promise<void> {
  const store = storeIn()
  const manager = new CheckpointManager(store, { clock: systemClock })
  const found: unknown[] = (await manager.damaged('job')).map(({ error }) => error)
  const sound: number[] = []
  for (const record of await manager.list('job')) {
    try {
      expect(await readBack(await manager.open(record))).toEqual(partsOf(record.progress))
      sound.push(record.progress)
    } catch (error) {
      found.push(error)
    }
  }
  expect(sound).toEqual([1])
  expect(found).toMatchObject([{ code: EGpuErrorCode.CheckpointCorrupt }])
  const token = await manager.acquire('job')
  const record = await manager.save('job', stateOf(3, partsOf(3)), { token })
  expect(record.generation).toBe(3)
  expect(await readBack(await manager.open(record))).toEqual(partsOf(3))
  await store.close()
}

const swaps: [string, (path: string) => Promise<unknown>][] = [
  ['a pipe', async (path) => spawnSync('mkfifo', [path])],
  ['a directory', (path) => mkdir(path)],
  ['a link to itself', (path) => symlink(path, path)],
  ['a link to what it was', (path) => symlink(`${path}.away`, path)],
  ['a link to a device that never ends', (path) => symlink('/dev/zero', path)],
  ['as large as a disk', async (path) => (await writeFile(path, ''), truncate(path, 2 ** 38))],
]

/** Links and directories are a person's; the rest is written over. */
const isReplaced = (what: string): boolean => !what.startsWith('a link') && what !== 'a directory'

describe.skipIf(process.platform === 'win32')('a file of a store', () => {
  it.each(swaps)('that is %s costs the checkpoint that it belongs to and nothing else', async (_, swap) => {
    for (const file of ['manifest', 'pack'] as const) {
      const { [file]: path } = await twoGenerations()
      await rename(path, `${path}.away`)
      await swap(path)
      await expectOlderOneUsed()
      await rm(directory, { recursive: true })
      await mkdir(directory)
    }
  })

  it.each(swaps.filter(([what]) => isReplaced(what)))('with its numbers that is %s is replaced', async (_, swap) => {
    const path = join(home(), 'counters')
    await twoGenerations()
    await rename(path, `${path}.away`)
    await swap(path)
    await expectNextSaved()
  })

  it.each(swaps.filter(([what]) => !isReplaced(what)))('with its numbers that is %s is named', async (_, swap) => {
    const path = join(home(), 'counters')
    await twoGenerations()
    await rename(path, `${path}.away`)
    await swap(path)
    const store = storeIn()
    await expect(store.acquire('job')).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringContaining(path),
    })
    await store.close()
    await rm(path, { recursive: true })
    await expectNextSaved()
  })
})

async function expectNextSaved(): Promise<void> {
  const store = storeIn()
  expect((await store.list('job')).map(({ progress }) => progress)).toEqual([2, 1])
  const token = await store.acquire('job')
  expect(token).toBeGreaterThan(1)
  expect(await write(store, 'job', token, 3, partsOf(3))).toMatchObject({ generation: 3 })
}

it('numbers that were lost, altered or put back are not given again', async () => {
  await twoGenerations()
  const path = join(home(), 'counters')
  for (const text of [undefined, '', '1', 'x y', '-5 -5', '1 1', '0.5 1', `${2 ** 53} ${2 ** 53}`, '9'.repeat(60)]) {
    if (text === undefined) await rm(path)
    else await writeFile(path, text)
    const store = storeIn()
    const before = await store.list('job')
    const token = await store.acquire('job')
    const record = await write(store, 'job', token, before.length + 1, partsOf(before.length + 1))
    expect(record.generation).toBe(before.length + 1)
    await rm(path)
    // Also while it is in use.
    expect(await store.acquire('job')).toBe(token + 1)
    await expect(write(store, 'job', token, 9, partsOf(9))).rejects.toMatchObject({ code: EGpuErrorCode.StaleEpoch })
    await store.close()
  }
})

it('a checkpoint under the highest number that a name can have is the last, and says so', async () => {
  const { manifest } = await twoGenerations()
  await writeFile(manifest.replace('000000000002', '9'.repeat(15)), '')
  const store = storeIn()
  await expect(write(store, 'job', await store.acquire('job'), 3, partsOf(3))).rejects.toMatchObject({
    code: EGpuErrorCode.CheckpointFailed,
    message: expect.stringContaining('there is no generation after'),
  })
  expect((await store.list('job')).map(({ progress }) => progress)).toEqual([2, 1])
})

it.skipIf(process.platform === 'win32')('a file that may not be read parks, it is not given up', async () => {
  const { manifest, pack } = await twoGenerations()
  await chmod(directory, 0o777)
  for (const path of [directory, join(directory, 'workloads'), home()]) await chmod(path, 0o777)
  for (const path of await readdir(home())) await chmod(join(home(), path), 0o666)
  for (const path of [manifest, pack]) {
    await chmod(path, 0)
    await asNobody(async () => {
      const store = storeIn()
      const reading = store.list('job').then(async () => readBack(await store.open('job', 2)))
      await expect(reading).rejects.toMatchObject({
        code: EGpuErrorCode.CheckpointFailed,
        message: expect.stringContaining(`may not use ${path}`),
      })
      await store.close()
    })
    await chmod(path, 0o666)
  }
  expect(await readBack(await storeIn().open('job', 2))).toEqual(partsOf(2))
})

describe('a manifest that somebody made', () => {
  const seal = (text: string): string => `egpu-checkpoint 2 ${createHash('sha256').update(text).digest('hex')}\n${text}`

  it.each([
    ['nested without end', () => '['.repeat(2 ** 20)],
    ['of nothing but empty objects', () => `[${'{},'.repeat(2 ** 20)}{}]`],
    ['of nothing but numbers', () => `[${'0,'.repeat(2_000_000)}0]`],
    ['that is no JSON', () => 'x'.repeat(100)],
    ['whose text never ends', () => `{"workloadId":"${'\\'.repeat(1_001)}`],
    ['with a progress that is no number', (good: string) => good.replace('"progress":2', '"progress":1e999')],
    ['with the last token there is', (good: string) => good.replace('"token":1', `"token":${Number.MAX_SAFE_INTEGER}`)],
  ])('%s is refused', async (_, make) => {
    const { manifest } = await twoGenerations()
    const good = (await readFile(manifest, 'utf8')).split('\n')[1] ?? ''
    const bad = make(good)
    expect(bad).not.toBe(good)
    await writeFile(manifest, seal(bad))
    await expectOlderOneUsed()
  })

  it('to take much memory does not get it', async () => {
    const { manifest } = await twoGenerations()
    await writeFile(manifest, seal(`[${'{},'.repeat(8_000_000)}{}]`))
    const script = `import { directoryStore } from '@egpu/migrator/node'
      const store = directoryStore(${JSON.stringify(directory)})
      console.log(JSON.stringify({ list: await store.list('job'), damaged: await store.damaged('job') }))
      await store.close()`
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--max-old-space-size=100', '--conditions=@egpu/source', '--import=tsx', '--input-type=module', '-e', script],
      { encoding: 'utf8', cwd: new URL('..', import.meta.url).pathname },
    )
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toMatchObject({ list: [{ generation: 1 }], damaged: [{ generation: 2 }] })
  })
})

describe.each([
  ['a directory', storeIn],
  ['memory', memoryStore],
])('a state that could not be read back from %s', (_, make) => {
  it.each([NaN, Infinity, -Infinity, '7' as unknown as number])(
    'because its progress is %j is refused',
    async (progress) => {
      const store = make()
      const manager = new CheckpointManager(store, { clock: systemClock })
      const token = await manager.acquire('job')
      const saved = await manager.save('job', stateOf(1, partsOf(1)), { token })
      await expect(manager.save('job', stateOf(progress, partsOf(1)), { token })).rejects.toMatchObject({
        code: EGpuErrorCode.CheckpointFailed,
        cause: { code: EGpuErrorCode.WorkloadFailed },
      })
      expect(await manager.list('job')).toEqual([saved])
    },
  )
})

it('a checkpoint whose list would be too long to be read is refused before the one before it goes', async () => {
  const store = storeIn()
  const token = await store.acquire('job')
  await write(store, 'job', token, 1, partsOf(1))
  const long = 'x'.repeat(2 ** 25)
  const many = Object.fromEntries(Array.from({ length: 2 }, (_, i) => [`${long}${i}`, noise(10, i)]))
  await expect(write(store, 'job', token, 2, many)).rejects.toMatchObject({
    code: EGpuErrorCode.CheckpointFailed,
    message: expect.stringContaining('larger chunkBytes'),
  })
  await store.close()
  expect((await storeIn().list('job')).map(({ progress }) => progress)).toEqual([1])
})

it('a checkpoint of little else than names is none of those that are refused', async () => {
  const store = storeIn()
  const empty = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`${i}`, new Uint8Array()]))
  const odd = { '[[[,,,{{{': noise(3, 1), '"\\"': noise(3, 2), '\\': noise(3, 3), '\0\n…': noise(3, 4) }
  await write(store, 'job', await store.acquire('job'), 1, { ...empty, ...odd })
  await store.close()
  const later = storeIn()
  expect(await later.damaged('job')).toEqual([])
  expect(await readBack(await later.open('job', 1))).toEqual({ ...empty, ...odd })
  const record = await importCheckpoint(memoryStore(), exportCheckpoint('job', await later.open('job', 1)))
  expect(record.parts).toHaveLength(5_004)
})

it('ids that are no text do not share a directory', async () => {
  const store = storeIn()
  for (const id of ['\ud800', 'a\udfff', '\udc00\ud800']) await expect(store.acquire(id)).rejects.toThrow(TypeError)
  for (const id of ['\ufffd', '😀', 'é', 'é'.normalize('NFD'), '\u202e', '\0']) {
    await write(store, id, await store.acquire(id), 1, partsOf(1))
  }
  expect(await store.workloads()).toHaveLength(6)
})
