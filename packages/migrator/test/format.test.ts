import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importCheckpoint, memoryStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { expect, it } from 'vitest'
import { noise, readBack, write } from './helpers/states.ts'

/** Written by the version of the package that knew only format 1, with chunks of 256 bytes; never to be made again. */
const written = new URL('./fixtures/format-1/', import.meta.url)
const partsOf = (progress: number) => ({
  field: new Uint8Array([...noise(512, 7), ...noise(300, progress)]),
  other: noise(50, progress + 100),
  empty: new Uint8Array(),
})

it('a store of format 1 is read, and goes on in the present format without writing again what it has', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-format-'))
  try {
    await cp(new URL('store', written), directory, { recursive: true })
    await using store = directoryStore(directory, { chunkBytes: 256 })
    expect((await store.list('job')).map(({ generation, progress }) => [generation, progress])).toEqual([
      [2, 5],
      [1, 3],
    ])
    expect(await readBack(await store.open('job', 1))).toEqual(partsOf(3))
    expect(await readBack(await store.open('job', 2))).toEqual(partsOf(5))
    await store.verify('job', 2)
    const token = await store.acquire('job')
    expect(token).toBe(2)
    await write(store, 'job', token, 6, partsOf(5))
    expect(await readBack(await store.open('job', 3))).toEqual(partsOf(5))
    const home = join(directory, 'workloads', 'w-job')
    const manifest = await readFile(join(home, '000000000003.manifest'), 'latin1')
    expect(manifest).toMatch(/^egpu-checkpoint 2 /)
    const old = await readFile(join(home, '000000000002.manifest'), 'latin1')
    const packsIn = (text: string): string[] => [...text.matchAll(/[\da-f]{32}\.pack/g)].map(([name]) => name)
    expect(packsIn(manifest)).toEqual(packsIn(old))
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})

it('an export of format 1 is imported', async () => {
  const store = memoryStore()
  const record = await importCheckpoint(store, [await readFile(new URL('job.egpuckp', written))])
  expect(record).toMatchObject({ workloadId: 'job', progress: 5 })
  expect(await readBack(await store.open('job', record.generation))).toEqual(partsOf(5))
})
