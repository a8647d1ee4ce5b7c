import { mkdtemp, open, readdir, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import type { SavedState } from '@egpu/core'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { chunkPool } from '../src/node/chunks/chunk-pool.ts'
import { nodeFs } from '../src/node/store-fs.ts'
import { noise } from './helpers/states.ts'

const mib = 2 ** 20
const byteLength = 17 * mib + 5
const field = noise(byteLength, 1)

let directory = ''
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'egpu-large-'))
})
afterEach(async () => {
  vi.restoreAllMocks()
  await rm(directory, { recursive: true, force: true })
})

/** Reads of which a thread took charge. */
async function watchedThreads(): Promise<() => number> {
  const spy = vi.spyOn(chunkPool, 'read')
  const isUp = (): boolean =>
    chunkPool.read({ fd: -1, offset: 0, lengths: [], memory: () => new Uint8Array(1) }) !== undefined
  await vi.waitUntil(isUp, { timeout: 60_000 })
  spy.mockClear()
  return () => spy.mock.results.filter(({ value }) => value !== undefined).length
}

async function save(store: DirectoryStore): Promise<void> {
  const parts = [{ name: 'field', byteLength }]
  const writer = await store.begin({ workloadId: 'job', token: await store.acquire('job'), progress: 1, parts })
  await writer.append('field', field)
  await writer.commit()
}

/** Whether all came back as it was saved; rejects where the store notices that it did not. */
async function isWhole(state: SavedState, transient: boolean): Promise<boolean> {
  const pieces: Uint8Array[] = []
  for await (const piece of state.read('field', { transient })) pieces.push(transient ? piece.slice() : piece)
  return Buffer.concat(pieces).equals(field)
}

async function pack(): Promise<string> {
  const home = join(directory, 'workloads', 'w-job')
  return join(home, (await readdir(home)).find((name) => name.endsWith('.pack')) ?? '')
}

async function flip(path: string, bit: number): Promise<void> {
  const file = await open(path, 'r+')
  const byte = new Uint8Array(1)
  await file.read(byte, 0, 1, bit >> 3)
  byte[0] = (byte[0] ?? 0) ^ (1 << (bit & 7))
  await file.write(byte, 0, 1, bit >> 3)
  await file.close()
}

describe('a large part of a checkpoint', () => {
  it('is read and checked by threads, and every flipped bit or missing end is noticed', async () => {
    const threads = await watchedThreads()
    await using store = directoryStore(directory)
    await save(store)
    for (const transient of [false, true, true]) {
      expect(await isWhole(await store.open('job', 1), transient)).toBe(true)
    }
    expect(threads()).toBeGreaterThan(40)
    const path = await pack()
    for (const bit of [0, 8 * mib - 1, 8 * mib, 8 * (9 * mib + 17) + 3, 8 * byteLength - 1]) {
      await flip(path, bit)
      const reading = isWhole(await store.open('job', 1), true)
      await expect(reading).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
      await flip(path, bit)
    }
    const state = await store.open('job', 1)
    await truncate(path, byteLength - 1)
    await expect(isWhole(state, true)).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
  })

  it('is read here where a thread cannot', async () => {
    const threads = await watchedThreads()
    const fs: typeof nodeFs = {
      ...nodeFs,
      open: async (...place) => ({ ...(await nodeFs.open(...place)), fd: 2 ** 30 }),
    }
    await using store = directoryStore(directory, { fs })
    await save(store)
    expect(await isWhole(await store.open('job', 1), true)).toBe(true)
    expect(threads()).toBeGreaterThan(0)
  })
})
