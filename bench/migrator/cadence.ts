import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuManager } from '@egpu/core'
import type { FrozenState } from '@egpu/core'
import { simDriver, VirtualClock } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { PagedWork } from '../../packages/migrator/test/helpers/paged-work.ts'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'
import { FieldOnCpu } from './field-on-cpu.ts'

/** Longer than any run here: no checkpoint after the first. */
const never = 1e9
const rounds = 3

/** What checkpoints at the default cadence cost the work, and how much they move. */
export async function measure(): Promise<Figure[]> {
  const [without, saving] = [await simulated(never), await simulated(undefined)]
  const copied = saving.movedBytes / saving.dirtyBytes
  const [alone, saved]: [number[], number[]] = [[], []]
  let checkpoints = 0
  for (let round = 0; round < rounds; round += 1) {
    alone.push((await onCpu(never)).ms)
    const run = await onCpu(undefined)
    saved.push(run.ms)
    checkpoints += run.checkpoints
  }
  return [
    overhead(
      'time that checkpoints of a simulated GPU add',
      saving.ms / without.ms,
      1,
      `${(without.ms / 1_000).toFixed(0)} s of virtual time without; ${saving.checkpoints} checkpoints`,
    ),
    {
      figure: 'bytes that checkpoints move',
      value: saving.movedBytes / 1e6,
      unit: 'MB',
      against: `${(saving.dirtyBytes / 1e6).toFixed(0)} MB changed, in all checkpoints after the first`,
      ratio: copied,
      bar: '<= 1.1 x the changed bytes',
      pass: copied <= 1.1,
    },
    overhead(
      'time that checkpoints of work on this CPU add',
      percentile(saved, 0.5) / percentile(alone, 0.5),
      3.5,
      `${(percentile(alone, 0.5) / 1_000).toFixed(1)} s without; ${(checkpoints / rounds).toFixed(1)} checkpoints of 64 MiB to disk`,
    ),
  ]
}

function overhead(figure: string, ratio: number, mostPercent: number, against: string): Figure {
  const value = (ratio - 1) * 100
  return { figure, value, unit: '%', against, ratio, bar: `<= ${mostPercent} %`, pass: value <= mostPercent }
}

interface Lived {
  readonly ms: number
  readonly checkpoints: number
}

/** Ten minutes of work that changes an eightieth of its 32 MiB a second. */
async function simulated(
  checkpointIntervalMs: number | undefined,
): Promise<Lived & { readonly movedBytes: number; readonly dirtyBytes: number }> {
  const clock = new VirtualClock()
  const driver = simDriver({ clock, enclosures: [{ plugged: true, gpus: [{ id: 'gpu', name: 'GPU' }] }] })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  const migrator = new WorkloadMigrator(manager, { checkpointIntervalMs })
  const work = new PagedWork({ clock, pages: 4_096, pageBytes: 8_192, perStep: 1, stepMs: 20, steps: 30_000 })
  let [checkpoints, movedBytes, dirtyBytes] = [0, 0, 0]
  const freeze = work.freeze.bind(work)
  work.freeze = async () => {
    const frozen = await freeze()
    checkpoints += 1
    // All of it has to go the first time.
    if (frozen.changed === undefined) return frozen
    dirtyBytes += frozen.changed.reduce((sum, { byteLength }) => sum + byteLength, 0)
    return counted(frozen, (byteLength) => (movedBytes += byteLength))
  }
  const run = migrator.run(work)
  await clock.runUntil(run.started)
  const from = clock.now()
  await clock.runUntil(run.finished)
  const ms = clock.now() - from
  await clock.runUntil(Promise.all([migrator.close(), manager.close()]))
  return { ms, checkpoints, movedBytes, dirtyBytes }
}

function counted(frozen: FrozenState, moved: (byteLength: number) => void): FrozenState {
  const counting = async function* (pieces: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const piece of pieces) {
      moved(piece.byteLength)
      yield piece
    }
  }
  return {
    ...frozen,
    read: (part, options) => counting(frozen.read(part, options)),
    readRange: (range, options) => counting(frozen.readRange?.(range, options) ?? frozen.read(range.part, options)),
    [Symbol.asyncDispose]: () => frozen[Symbol.asyncDispose](),
  }
}

/** Real work on this machine's processor, with checkpoints in a directory. */
async function onCpu(checkpointIntervalMs: number | undefined): Promise<Lived> {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-bench-cadence-'))
  const manager = await EGpuManager.create({ drivers: [] })
  const store = directoryStore(directory)
  const migrator = new WorkloadMigrator(manager, { checkpointIntervalMs, store })
  try {
    const work = new FieldOnCpu()
    let checkpoints = 0
    manager.on('checkpoint-saved', () => (checkpoints += 1))
    const run = migrator.run(work)
    await run.started
    const from = performance.now()
    await run.finished
    return { ms: performance.now() - from, checkpoints }
  } finally {
    await migrator.close()
    await manager.close()
    await store.close()
    await rm(directory, { recursive: true, force: true })
  }
}
