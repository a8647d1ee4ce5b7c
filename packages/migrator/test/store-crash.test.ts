import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { seededRandom } from '@egpu/driver-sim'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { describe, expect, it } from 'vitest'
import { flipEveryBit } from './helpers/bit-flips.ts'
import { CrashFs, failure } from './helpers/crash-fs.ts'
import { noise, readBack, write } from './helpers/states.ts'

const workloadId = 'job'
const partsOf = (progress: number) => ({
  moving: noise(700, progress),
  still: noise(700, 1_000),
  half: new Uint8Array([...noise(128, 2_000), ...noise(128, progress)]),
})

/** Everything a store does in its life. Returns what had been promised to last when it was interrupted. */
async function live(store: DirectoryStore, promise: (progress: number) => void, from: number = 0): Promise<void> {
  const token = await store.acquire(workloadId)
  for (let progress = from + 1; progress <= from + 4; progress += 1) {
    await write(store, workloadId, token, progress, partsOf(progress))
    promise(progress)
    for (const { generation } of (await store.list(workloadId)).slice(2)) await store.remove(workloadId, generation)
  }
  await store.close()
}

/** Everything listed must be whole and right, and at least what was promised last must be there. */
async function check(fs: CrashFs, promised: number): Promise<number> {
  const store = directoryStore('/store', { fs, chunkBytes: 128 })
  const records = await store.list(workloadId)
  for (const { generation, progress } of records) {
    expect(await readBack(await store.open(workloadId, generation))).toEqual(partsOf(progress))
    await store.verify(workloadId, generation)
  }
  expect(await store.damaged(workloadId)).toEqual([])
  const newest = records[0]?.progress ?? 0
  expect(newest).toBeGreaterThanOrEqual(promised)
  expect(newest).toBeLessThanOrEqual(promised + 1)
  await store.close()
  return newest
}

async function operationsOfALife(): Promise<number> {
  const fs = new CrashFs()
  await live(directoryStore('/store', { fs, chunkBytes: 128 }), () => undefined)
  const { operations } = fs
  await check(fs, 4)
  return operations
}

describe('a crash', () => {
  it('at any file-system call loses nothing that was committed and leaves nothing torn', async () => {
    const total = await operationsOfALife()
    let crashes = 0
    for (let at = 1; at <= total; at += 1) {
      for (let seed = 1; seed <= 2; seed += 1) {
        const fs = new CrashFs()
        let promised = 0
        const crashed = new Promise<CrashFs>((resolve) => {
          fs.hook = () => {
            if (fs.operations < at) return undefined
            const random = seededRandom(at * 7 + seed)
            resolve(fs.crash(() => random.between(0, 1)))
            return new Promise(() => undefined)
          }
        })
        const over = live(directoryStore('/store', { fs, chunkBytes: 128 }), (progress) => (promised = progress))
        const after = await Promise.race([crashed, over.then(() => undefined)])
        if (after === undefined) continue
        crashes += 1
        const found = await check(after, promised)
        // And it goes on from there.
        let last = 0
        await live(directoryStore('/store', { fs: after, chunkBytes: 128 }), (progress) => (last = progress), found)
        expect(await check(after, last)).toBe(found + 4)
      }
    }
    expect(crashes).toBeGreaterThan(200)
  }, 300_000)
})

describe('a disk that fails', () => {
  it('at any one file-system call costs at most the checkpoint being written; the next one works', async () => {
    const total = await operationsOfALife()
    let failures = 0
    for (let at = 1; at <= total; at += 1) {
      const fs = new CrashFs()
      const store = directoryStore('/store', { fs, chunkBytes: 128 })
      fs.hook = (_, path) => {
        if (fs.operations === at) throw failure('ENOSPC', path)
      }
      let saved = 0
      let token: number | undefined
      // The failure is over by the last round, at the latest.
      for (let progress = 1; progress <= 6; progress += 1) {
        try {
          token ??= await store.acquire(workloadId)
          await write(store, workloadId, token, progress, partsOf(progress))
          saved = progress
          for (const { generation } of (await store.list(workloadId)).slice(2))
            await store.remove(workloadId, generation)
        } catch (error) {
          failures += 1
          if (EGpuError.is(error, EGpuErrorCode.StaleEpoch)) throw error
          const kept = (await store.list(workloadId)).map((record) => record.progress)
          if (saved > 0 && !kept.includes(saved)) throw new Error(`operation ${at} cost ${saved}`, { cause: error })
        }
      }
      await store.close()
      const again = directoryStore('/store', { fs, chunkBytes: 128 })
      const records = await again.list(workloadId)
      expect(records[0]?.progress).toBe(6)
      for (const { generation, progress } of records) {
        expect(await readBack(await again.open(workloadId, generation))).toEqual(partsOf(progress))
      }
      await again.close()
    }
    expect(failures).toBeGreaterThan(20)
  }, 300_000)
})

describe('a single flipped bit', () => {
  it('anywhere in a checkpoint is noticed, and the checkpoint before it stays good', async () => {
    const { flips, unnoticed, spread, kinds } = await flipEveryBit()
    expect(kinds).toEqual(['.manifest', '.pack'])
    expect(flips).toBeGreaterThan(5_000)
    expect(unnoticed).toEqual([])
    expect(spread).toEqual([])
  }, 300_000)
})
