import { spawnSync } from 'node:child_process'
import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const byteLength = 192 * 2 ** 20
const pieceBytes = 2 ** 20
const rounds = 5

/** The directory store against `dd` with an fsync, and a restore against a plain read, turn by turn. */
export async function measure(): Promise<Figure[]> {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-bench-store-'))
  try {
    const source = join(directory, 'source')
    const bytes = noise(byteLength)
    await writeFile(source, bytes)
    const saves: number[] = []
    const copies: number[] = []
    const restores: number[] = []
    const reads: number[] = []
    for (let round = 0; round < rounds; round += 1) {
      // Nothing is like the round before, so nothing can be left out.
      for (let at = 0; at < bytes.byteLength; at += 4_096) bytes[at] = (bytes[at] as number) + 1
      copies.push(await timed(async () => dd(source, join(directory, 'copy'))))
      const home = join(directory, `store-${round}`)
      const store = directoryStore(home)
      const token = await store.acquire('bench')
      saves.push(await timed(() => save(store, token, bytes)))
      const pack = await packIn(join(home, 'workloads', 'w-bench'))
      await plainRead(pack)
      reads.push(await timed(() => plainRead(pack)))
      restores.push(await timed(() => restore(store)))
      await store.close()
      await rm(home, { recursive: true })
    }
    return [
      compared('directory store save', saves, copies, 'dd conv=fsync of the same bytes'),
      compared('directory store restore', restores, reads, 'a plain read of the same file'),
    ]
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function compared(figure: string, ours: readonly number[], theirs: readonly number[], against: string): Figure {
  const speed = byteLength / percentile(ours, 0.5) / 1e6
  const ratio = percentile(theirs, 0.5) / percentile(ours, 0.5)
  return { figure, value: speed, unit: 'GB/s', against, ratio, bar: '>= 0.9 x', pass: ratio >= 0.9 }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

function dd(from: string, to: string): void {
  const { status, stderr } = spawnSync('dd', [`if=${from}`, `of=${to}`, 'bs=1M', 'conv=fsync'], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`dd failed: ${stderr}`)
}

async function save(store: DirectoryStore, token: number, bytes: Uint8Array): Promise<void> {
  const parts = [{ name: 'field', byteLength }]
  const writer = await store.begin({ workloadId: 'bench', token, progress: 1, parts })
  for (let at = 0; at < byteLength; at += pieceBytes) await writer.append('field', bytes.subarray(at, at + pieceBytes))
  await writer.commit()
}

async function restore(store: DirectoryStore): Promise<void> {
  const [record] = await store.list('bench')
  const state = await store.open('bench', record?.generation ?? 0)
  let seen = 0
  for await (const piece of state.read('field')) seen += piece.byteLength
  if (seen !== byteLength) throw new Error(`${seen} of ${byteLength} bytes came back`)
}

async function packIn(directory: string): Promise<string> {
  const name = (await readdir(directory)).find((entry) => entry.endsWith('.pack'))
  if (name === undefined) throw new Error(`no pack in ${directory}`)
  return join(directory, name)
}

/** As a restore without checks would: a new buffer for each piece. */
async function plainRead(path: string): Promise<void> {
  const handle = await open(path)
  try {
    for (let at = 0; at < byteLength; at += pieceBytes) await handle.read(new Uint8Array(pieceBytes), 0, pieceBytes, at)
  } finally {
    await handle.close()
  }
}

function noise(length: number): Uint8Array {
  const words = new Uint32Array(length / 4)
  let word = 2_463_534_242
  for (let i = 0; i < words.length; i += 1) {
    // xorshift32, Marsaglia 2003
    word ^= word << 13
    word ^= word >>> 17
    word ^= word << 5
    words[i] = word
  }
  return new Uint8Array(words.buffer)
}
