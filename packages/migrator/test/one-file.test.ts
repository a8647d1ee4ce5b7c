import { EGpuErrorCode } from '@egpu/core'
import { exportCheckpoint, importCheckpoint, memoryStore } from '@egpu/migrator'
import { describe, expect, it } from 'vitest'
import { noise, readBack, stateOf } from './helpers/states.ts'

const parts = { field: noise(500, 1), empty: new Uint8Array(), other: noise(60, 2) }

async function exported(): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of exportCheckpoint('job', stateOf(7, parts))) pieces.push(piece)
  return new Uint8Array(Buffer.concat(pieces))
}

describe('a checkpoint as one file', () => {
  it('goes into another store whole, in pieces of any size', async () => {
    const file = await exported()
    for (const size of [1, 7, 1_000, file.byteLength]) {
      const store = memoryStore()
      const pieces = Array.from({ length: Math.ceil(file.byteLength / size) }, (_, i) =>
        file.subarray(i * size, (i + 1) * size),
      )
      const record = await importCheckpoint(store, size === file.byteLength ? file : pieces)
      expect(record).toMatchObject({ workloadId: 'job', progress: 7, generation: 1 })
      expect(await readBack(await store.open('job', 1))).toEqual(parts)
    }
  })

  it('is refused whichever single bit of it was flipped, wherever it was cut, and with anything added', async () => {
    const file = await exported()
    const store = memoryStore()
    const isRefused = async (bytes: Uint8Array): Promise<void> => {
      await expect(importCheckpoint(store, [bytes])).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
    }
    for (let bit = 0; bit < file.byteLength * 8; bit += 1) {
      const bad = file.slice()
      bad[bit >> 3] = (bad[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      await isRefused(bad)
    }
    for (let length = 0; length < file.byteLength; length += 1) await isRefused(file.subarray(0, length))
    await isRefused(new Uint8Array([...file, 0]))
    expect(await store.workloads()).toEqual([])
  })
})
