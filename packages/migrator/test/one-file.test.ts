import { createHash } from 'node:crypto'
import { createReadStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuErrorCode } from '@egpu/core'
import { exportCheckpoint, importCheckpoint, memoryStore } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { afterAll, describe, expect, it } from 'vitest'
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

  it('has pieces of one size, whatever its state is read in', async () => {
    let count = 0
    for await (const piece of exportCheckpoint('job', stateOf(1, { field: noise(300_000, 1) }, 1))) {
      if (piece.byteLength > 32) count += 1
    }
    // The head and the part.
    expect(count).toBe(2)
  })

  it('is refused where its head says what cannot be, before a byte of it is stored', async () => {
    const store = memoryStore()
    const head = (text: string): Uint8Array => {
      const bytes = Buffer.from(text)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.byteLength)
      return Buffer.concat([Buffer.from('EGPUCKP1'), length, createHash('sha256').update(bytes).digest(), bytes])
    }
    for (const text of [
      'null',
      '{}',
      '{"workloadId":"job","progress":1e999,"parts":[]}',
      '{"workloadId":"job","progress":1,"parts":[{"name":"a","byteLength":-1}]}',
      '{"workloadId":"job","progress":1,"parts":[{"name":"a","byteLength":0.5}]}',
      '{"workloadId":"job","progress":1,"parts":[{"name":"a","byteLength":1e300}]}',
      '{"workloadId":"job","progress":1,"parts":[{"name":"a","byteLength":0},{"name":"a","byteLength":0}]}',
      '{"workloadId":"job","progress":1,"parts":[null]}',
      `{"workloadId":"job","progress":1,"parts":[${'{},'.repeat(1_000)}{}]}`,
      '['.repeat(100_000),
    ]) {
      await expect(importCheckpoint(store, head(text))).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
    }
    // As long as it can be said to be, and nothing of it there.
    const endless = head(
      `{"workloadId":"job","progress":1,"parts":[{"name":"a","byteLength":${Number.MAX_SAFE_INTEGER}}]}`,
    )
    for (const rest of [[], [0xff, 0xff, 0xff, 0xff]]) {
      const refusal = importCheckpoint(store, new Uint8Array([...endless, ...rest]))
      await expect(refusal).rejects.toMatchObject({ code: EGpuErrorCode.CheckpointCorrupt })
    }
    expect(await store.workloads()).toEqual([])
  })
})

describe('a source of an import', () => {
  const home = mkdtempSync(join(tmpdir(), 'egpu-one-file-'))
  afterAll(() => rmSync(home, { recursive: true, force: true }))

  it.each([
    ['is not there', join(home, 'none'), 'ENOENT'],
    ['is a directory', home, 'EISDIR'],
  ])('that %s is named', async (_, path, code) => {
    await expect(importCheckpoint(memoryStore(), createReadStream(path))).rejects.toMatchObject({
      code: EGpuErrorCode.CheckpointFailed,
      message: expect.stringContaining('this export was not imported: it cannot be read'),
      cause: { code },
    })
  })

  it('that hangs is left when the import is aborted, and nothing is kept', async () => {
    const store = memoryStore()
    const file = await exported()
    let asked = 0
    const abort = new AbortController()
    const reason = new Error('enough')
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async (): Promise<IteratorResult<Uint8Array>> => {
          asked += 1
          if (asked === 1) return { done: false, value: file.subarray(0, 300) }
          abort.abort(reason)
          return new Promise(() => undefined)
        },
      }),
    }
    await expect(importCheckpoint(store, source, { signal: abort.signal })).rejects.toBe(reason)
    expect(asked).toBe(2)
    expect(await store.workloads()).toEqual([])
  })

  it('is closed where the rest of it is of no use', async () => {
    let isClosed = false
    async function* source(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield new Uint8Array(100)
      } finally {
        isClosed = true
      }
    }
    await expect(importCheckpoint(memoryStore(), source())).rejects.toThrow('no exported checkpoint')
    await expect.poll(() => isClosed).toBe(true)
  })

  it('with a name that the store does not take is no mistake of the caller', async () => {
    await using store = directoryStore(join(home, 'store'))
    for (const id of ['x'.repeat(300), '\ud800']) {
      await expect(importCheckpoint(store, exportCheckpoint(id, stateOf(1, parts)))).rejects.toMatchObject({
        code: EGpuErrorCode.CheckpointFailed,
        cause: expect.any(TypeError),
      })
    }
  })
})
