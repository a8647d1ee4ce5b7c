import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { directoryStore } from '@egpu/migrator/node'
import { CrashFs } from './crash-fs.ts'
import { noise, readBack, write } from './states.ts'

const workloadId = 'job'

export interface FlipOutcome {
  readonly flips: number
  /** Flips after which the checkpoint was given out as if nothing were wrong with it. */
  readonly unnoticed: readonly string[]
  /** Flips that spoiled the checkpoint before, too. */
  readonly spread: readonly string[]
  /** Ends of the names of the files that were altered. */
  readonly kinds: readonly string[]
}

/** Flips every bit of every file that belongs to the newest of two checkpoints, one at a time, and looks what comes of it. */
export async function flipEveryBit(): Promise<FlipOutcome> {
  const fs = new CrashFs()
  const first = { field: noise(150, 1), other: noise(20, 2) }
  {
    await using store = directoryStore('/store', { fs, chunkBytes: 128 })
    await write(store, workloadId, await store.acquire(workloadId), 1, first)
  }
  const older = new Set(fs.files().map(({ path }) => path))
  {
    await using store = directoryStore('/store', { fs, chunkBytes: 128 })
    await write(store, workloadId, 1, 2, { field: noise(150, 3), other: noise(20, 4) })
  }
  const own = fs.files().filter(({ path }) => !older.has(path))
  const unnoticed: string[] = []
  const spread: string[] = []
  let flips = 0
  for (const { path, bytes } of own) {
    for (let bit = 0; bit < bytes.byteLength * 8; bit += 1) {
      const flip = (): void => void (bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7)))
      flip()
      await using store = directoryStore('/store', { fs, chunkBytes: 128 })
      const damage = (await store.damaged(workloadId))[0]?.error ?? (await read(store, 2))
      if (!EGpuError.is(damage, EGpuErrorCode.CheckpointCorrupt)) unnoticed.push(`bit ${bit} of ${path}`)
      const before = await read(store, 1)
      const isSame = JSON.stringify(before) === JSON.stringify(first)
      if (!isSame) spread.push(`bit ${bit} of ${path}`)
      flip()
      flips += 1
    }
  }
  return { flips, unnoticed, spread, kinds: own.map(({ path }) => path.slice(path.lastIndexOf('.'))).sort(byName) }
}

/** What is in it, or what reading it failed with. */
async function read(store: ReturnType<typeof directoryStore>, generation: number): Promise<unknown> {
  try {
    return await readBack(await store.open(workloadId, generation))
  } catch (error) {
    return error
  }
}

function byName(a: string, b: string): number {
  return a.localeCompare(b)
}
