import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { directoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { noise, readBack, write } from './helpers/states.ts'

let directory = ''
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'egpu-zstd-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const text = (): Uint8Array => new TextEncoder().encode('what repeats itself can be said in fewer words. '.repeat(300))
const home = (): string => join(directory, 'workloads', 'w-job')
const packOf = async (): Promise<string> =>
  join(home(), (await readdir(home())).find((name) => name.endsWith('.pack')) ?? '')

it('what zstd makes smaller is stored smaller, everything else as it is, and all of it comes back', async () => {
  const parts = { text: text(), noise: noise(12_000, 1), small: noise(10, 2) }
  {
    await using store = directoryStore(directory, { zstdLevel: 1, chunkBytes: 4_000 })
    await write(store, 'job', await store.acquire('job'), 1, parts)
  }
  const { size } = await stat(await packOf())
  expect(size).toBeGreaterThan(12_010)
  expect(size).toBeLessThan(12_010 + text().byteLength / 20)
  // Whoever opens it later need not compress.
  await using store = directoryStore(directory, { chunkBytes: 4_000 })
  expect(await readBack(await store.open('job', 1))).toEqual(parts)
  await store.verify('job', 1)
  await write(store, 'job', await store.acquire('job'), 2, { ...parts, small: noise(10, 3) })
  expect(await readBack(await store.open('job', 2))).toEqual({ ...parts, small: noise(10, 3) })
})

it('every flipped bit of a compressed chunk is noticed', async () => {
  const part = new Uint8Array(4_000).fill(7)
  {
    await using store = directoryStore(directory, { zstdLevel: 3 })
    await write(store, 'job', await store.acquire('job'), 1, { part })
  }
  const path = await packOf()
  const good = await readFile(path)
  expect(good.byteLength).toBeLessThan(100)
  await using store = directoryStore(directory)
  const [record] = await store.list('job')
  for (let bit = 0; bit < good.byteLength * 8; bit += 1) {
    const bad = Buffer.from(good)
    bad[bit >> 3] = (bad[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    await writeFile(path, bad)
    const reading = store.open('job', record?.generation ?? 0).then(readBack)
    await expect(reading).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
  }
  await writeFile(path, good)
  expect(await readBack(await store.open('job', 1))).toEqual({ part })
})

it('a level that zstd does not have is a TypeError', () => {
  for (const zstdLevel of [0, 20, 1.5, NaN]) expect(() => directoryStore(directory, { zstdLevel })).toThrow(TypeError)
})
