import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { crc32 } from 'node:zlib'
import { directoryStore } from '@egpu/migrator/node'
import type { DirectoryStore } from '@egpu/migrator/node'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const byteLength = 192 * 2 ** 20
const pieceBytes = 2 ** 20
const rounds = 7

/**
 * The directory store against `dd` with an fsync, and a restore against a plain read, turn by turn. A restore after a
 * crash or in another process reads from the disk, one of a moment later from memory: both are measured.
 */
export async function measure(): Promise<Figure[]> {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-bench-store-'))
  const shell = new Shell()
  const dd = (...operands: readonly string[]): Promise<void> => shell.run('dd', 'bs=1M', 'status=none', ...operands)
  // Out of the page cache, so that the next read comes from the disk.
  const forget = (path: string): Promise<void> => dd(`if=${path}`, 'iflag=nocache', 'count=0')
  try {
    const source = join(directory, 'source')
    const bytes = noise(byteLength)
    const home = join(directory, 'store')
    const store = directoryStore(home)
    const token = await store.acquire('bench')
    const times = { copies: [], saves: [], coldReads: [], coldRestores: [], reads: [], restores: [] } as Times
    const processorMs: number[] = []
    const hashMs = hashing(bytes)
    for (let round = 0; round < rounds; round += 1) {
      // Nothing is like the round before, so nothing can be left out.
      for (let at = 0; at < bytes.byteLength; at += 4_096) bytes[at] = (bytes[at] as number) + 1
      await writeFile(source, bytes)
      await shell.run('sync', '-f', source)
      // Whoever is second finds the disk busy with what the first left to do.
      const turns = [
        async () =>
          times.copies.push(await timed(() => dd(`if=${source}`, `of=${join(directory, 'copy')}`, 'conv=fsync'))),
        async () => {
          const before = process.cpuUsage()
          times.saves.push(await timed(() => save(store, token, bytes)))
          const { user, system } = process.cpuUsage(before)
          processorMs.push((user + system) / 1_000)
        },
      ]
      for (const turn of round % 2 === 0 ? turns : turns.reverse()) await turn()
      const pack = await packIn(join(home, 'workloads', 'w-bench'))
      await forget(pack)
      times.coldReads.push(await timed(() => dd(`if=${pack}`, 'of=/dev/null')))
      await forget(pack)
      times.coldRestores.push(await timed(() => restore(store)))
      times.reads.push(await timed(() => dd(`if=${pack}`, 'of=/dev/null')))
      times.restores.push(await timed(() => restore(store)))
      const [newest] = await store.list('bench')
      await store.remove('bench', newest?.generation ?? 0)
    }
    await store.close()
    const { copies, saves, coldReads, coldRestores, reads, restores } = times
    return [
      compared('directory store save', saves, copies, 'dd conv=fsync of the same bytes'),
      compared('directory store restore from the disk', coldRestores, coldReads, 'dd of the same file, not in memory'),
      compared('directory store restore from memory', restores, reads, 'dd of the same file, in the page cache'),
      {
        figure: 'processor time of a directory store save',
        value: (percentile(processorMs, 0.5) / byteLength) * 1e6,
        unit: 's/GB, on all cores together',
        against:
          `${((hashMs / byteLength) * 1e6).toFixed(2)} s/GB for SHA-256 and CRC-32 alone, on one core; ` +
          `so much of it on ${availableParallelism()} cores bounds a save from below`,
        ratio: percentile(processorMs, 0.5) / hashMs,
      },
    ]
  } finally {
    shell.close()
    await rm(directory, { recursive: true, force: true })
  }
}

type Times = Record<'copies' | 'saves' | 'coldReads' | 'coldRestores' | 'reads' | 'restores', number[]>

function compared(figure: string, ours: readonly number[], theirs: readonly number[], against: string): Figure {
  const speed = byteLength / percentile(ours, 0.5) / 1e6
  const rival = byteLength / percentile(theirs, 0.5) / 1e6
  const ratio = speed / rival
  return {
    figure,
    value: speed,
    unit: 'GB/s',
    against: `${against}: ${rival.toFixed(2)} GB/s`,
    ratio,
    bar: '>= 0.9 x',
    pass: ratio >= 0.9,
  }
}

/** What no store that hashes can do without. The best of a few: the machine's other work does not count. */
function hashing(bytes: Uint8Array): number {
  const times = Array.from({ length: 3 }, () => {
    const startedAt = performance.now()
    for (let at = 0; at < byteLength; at += pieceBytes) {
      const piece = bytes.subarray(at, at + pieceBytes)
      createHash('sha256').update(piece).digest('hex')
      crc32(piece)
    }
    return performance.now() - startedAt
  })
  return Math.min(...times)
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/**
 * Started once: this process is large, to start another from it takes as long as `dd` itself, and leaves each page of its
 * memory to be faulted in again by whoever writes to it next.
 */
class Shell {
  readonly #process = spawn('sh', { stdio: ['pipe', 'pipe', 'inherit'] })
  readonly #answers = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]()

  /** Rejects where it did not end with 0. */
  async run(...words: readonly string[]): Promise<void> {
    const line = words.map((word) => `'${word}'`).join(' ')
    this.#process.stdin.write(`${line}; echo $?\n`)
    const { value } = await this.#answers.next()
    if (value !== '0') throw new Error(`${line} ended with ${value}`)
  }

  close(): void {
    this.#process.stdin.end()
  }
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
  for await (const piece of state.read('field', { transient: true })) seen += piece.byteLength
  if (seen !== byteLength) throw new Error(`${seen} of ${byteLength} bytes came back`)
}

async function packIn(directory: string): Promise<string> {
  const name = (await readdir(directory)).find((entry) => entry.endsWith('.pack'))
  if (name === undefined) throw new Error(`no pack in ${directory}`)
  return join(directory, name)
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
