import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { EGpuError, EGpuErrorCode } from '@egpu/core'
import { exportCheckpoint, importCheckpoint, type CheckpointRecord } from '@egpu/migrator'
import { directoryStore, type DirectoryStore } from '@egpu/migrator/node'
import type { Command } from 'commander'
import { bytesText } from '../output/bytes-text.ts'
import { didYouMean } from '../output/closest.ts'
import { printJson } from '../output/json.ts'
import type { Terminal } from '../output/terminal.ts'
import { plain } from '../output/text.ts'
import { jsonOption, wholeNumber, type CommandContext } from './context.ts'

interface Options {
  readonly json?: boolean | undefined
  readonly generation?: number | undefined
}

const directory = ['<directory>', 'of a checkpoint store'] as const

export function registerCheckpoints(egpu: Command, { terminal, signal }: CommandContext): void {
  const checkpoints = egpu
    .command('checkpoints')
    .description('look into a directory of checkpoints, check and copy them')
  const generation = ['--generation <number>', 'another than the newest', wholeNumber] as const
  checkpoints
    .command('list')
    .argument(...directory)
    .description('every checkpoint, and those that are damaged')
    .addOption(jsonOption())
    .action((path: string, options: Options) =>
      withStore(path, (store) => list(store, options, terminal), tellNone(options, terminal)),
    )
  checkpoints
    .command('verify')
    .argument(...directory)
    .description('read every byte of every checkpoint and compare its SHA-256')
    .addOption(jsonOption())
    .action((path: string, options: Options) =>
      withStore(path, (store) => verify(store, options, terminal), tellNone(options, terminal)),
    )
  checkpoints
    .command('export')
    .argument(...directory)
    .argument('<workload>', 'as `egpu checkpoints list` names it')
    .argument('<file>', 'where to write it; must not exist')
    .description('one checkpoint as one file')
    .option(...generation)
    .addOption(jsonOption())
    .action((path: string, workload: string, file: string, options: Options) =>
      withStore(path, (store) => exportTo(store, workload, file, options, terminal, signal)),
    )
  checkpoints
    .command('import')
    .argument(...directory)
    .argument('<file>', 'what `egpu checkpoints export` wrote')
    .description("an exported checkpoint as its workload's newest")
    .addOption(jsonOption())
    .action((path: string, file: string, options: Options) =>
      withStore(path, (store) => importFrom(store, file, options, terminal, signal), 'make it'),
    )
}

/** A store makes its directories; looking into what is none must not. `otherwise` is for a directory without a store. */
async function withStore(
  path: string,
  use: (store: DirectoryStore) => Promise<void>,
  otherwise: 'make it' | ((path: string) => void) = refuse,
): Promise<void> {
  const isDirectory = async (name: string): Promise<boolean> =>
    (await stat(name).catch(() => undefined))?.isDirectory() === true
  if (otherwise !== 'make it') {
    if (!(await isDirectory(path))) refuse(path)
    if (!(await isDirectory(join(path, 'workloads')))) {
      otherwise(path)
      return
    }
  }
  await using store = directoryStore(path)
  await use(store)
}

function refuse(path: string): never {
  throw new EGpuError(EGpuErrorCode.CheckpointNotFound, `${path} is no directory of checkpoints`)
}

/** A person is told when there is nothing; a program reads that there was no line. */
function tellNone({ json = false }: Options, terminal: Terminal): () => void {
  return () => {
    if (!json) terminal.note('there are no checkpoints here')
  }
}

async function workloadsOf(store: DirectoryStore, options: Options, terminal: Terminal): Promise<readonly string[]> {
  const workloads = await store.workloads()
  if (workloads.length === 0) tellNone(options, terminal)()
  return workloads
}

async function list(store: DirectoryStore, { json = false }: Options, terminal: Terminal): Promise<void> {
  const { print, colors } = terminal
  for (const workload of await workloadsOf(store, { json }, terminal)) {
    const records = await store.list(workload)
    const damaged = await store.damaged(workload)
    if (json) {
      printJson(
        {
          workload,
          checkpoints: records,
          damaged: damaged.map(({ generation, error }) => ({ generation, error: error.message })),
        },
        terminal,
      )
      continue
    }
    print(colors.bold(plain(workload)))
    for (const { generation, progress, byteLength, savedAtMs } of records)
      print(`  ${generation}  step ${progress}  ${bytesText(byteLength)}  ${new Date(savedAtMs).toISOString()}`)
    for (const { generation, error } of damaged) print(colors.red(`  ${generation}  damaged: ${plain(error.message)}`))
  }
}

async function verify(store: DirectoryStore, { json = false }: Options, terminal: Terminal): Promise<void> {
  let wrong = 0
  for (const workload of await workloadsOf(store, { json }, terminal)) {
    const damaged = (await store.damaged(workload)).map(({ generation, error }) => ({ generation, error }))
    const checked = await Promise.all(
      (await store.list(workload)).map(async ({ generation }) => ({
        generation,
        error: await faultOf(store, workload, generation),
      })),
    )
    for (const { generation, error } of [...checked, ...damaged]) {
      if (error !== undefined) wrong += 1
      if (json) printJson({ workload, generation, sound: error === undefined, error: error?.message }, terminal)
      else {
        const verdict = error === undefined ? terminal.colors.green('sound') : terminal.colors.red(plain(error.message))
        terminal.print(`${plain(workload)} ${generation}: ${verdict}`)
      }
    }
  }
  if (wrong > 0)
    throw new EGpuError(EGpuErrorCode.CheckpointCorrupt, `${wrong} damaged; older ones that are sound can be restored`)
}

/** What is wrong with a checkpoint; `undefined` when nothing is. */
async function faultOf(store: DirectoryStore, workload: string, generation: number): Promise<Error | undefined> {
  try {
    await store.verify(workload, generation)
    return undefined
  } catch (error) {
    return error as Error
  }
}

async function exportTo(
  store: DirectoryStore,
  workload: string,
  file: string,
  { generation, json = false }: Options,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  const record = chosen(await store.list(workload), workload, generation, await store.workloads())
  const output = await open(file, 'wx')
  try {
    let written = 0
    for await (const bytes of exportCheckpoint(workload, await store.open(workload, record.generation), { signal })) {
      await output.write(bytes)
      written += bytes.byteLength
      terminal.progress(`${bytesText(written)} of about ${bytesText(record.byteLength)}`)
    }
    await output.sync()
    if (json) printJson({ file, bytes: written, checkpoint: record }, terminal)
    else terminal.print(`${file}: checkpoint ${record.generation} of ${plain(workload)}, ${bytesText(written)}`)
  } finally {
    await output.close()
  }
}

function chosen(
  records: readonly CheckpointRecord[],
  workload: string,
  wanted: number | undefined,
  workloads: readonly string[],
): CheckpointRecord {
  const found = wanted === undefined ? records[0] : records.find(({ generation }) => generation === wanted)
  if (found !== undefined) return found
  const generations = records.map(({ generation }) => generation).join(', ')
  const text = workloads.includes(workload)
    ? `there is no such checkpoint of ${workload}; generations: ${generations || 'none'}`
    : `no workload is called ${workload}${didYouMean(workload, workloads)}; there are: ${workloads.join(', ') || 'none'}`
  throw new EGpuError(EGpuErrorCode.CheckpointNotFound, plain(text))
}

async function importFrom(
  store: DirectoryStore,
  file: string,
  { json = false }: Options,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  // Opened here, so that a file that is not there is told as everywhere else.
  await using opened = await open(file)
  const record = await importCheckpoint(store, opened.createReadStream(), { signal })
  const { workloadId, generation, byteLength } = record
  if (json) printJson({ file, checkpoint: record }, terminal)
  else terminal.print(`${plain(workloadId)}: checkpoint ${generation}, ${bytesText(byteLength)}`)
}
