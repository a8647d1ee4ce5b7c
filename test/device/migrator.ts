import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EGpuManager, systemClock } from '@egpu/core'
import type { ComputeTarget, OpenTarget } from '@egpu/core'
import { probeHands, wgpuDriver } from '@egpu/driver-wgpu'
import { probeTarget, WorkloadMigrator } from '@egpu/migrator'
import type { MeasuredRates } from '@egpu/migrator'
import { directoryStore, survive } from '@egpu/migrator/node'
import type { Figure } from '../../bench/figure.ts'
import { percentile } from '../../bench/figure.ts'
import { Field } from './field.ts'
import type { FieldOptions } from './field.ts'

export interface MigratorOptions {
  /** Size of the state; less where a binding can hold less. */
  readonly mebibytes: number
  /** About how long one run of the work takes undisturbed. */
  readonly runMs: number
}

/** Bundled, it lies beside this file under the same name. */
const surviveWork = import.meta.url.endsWith('.ts') ? './survive-work.ts' : './survive-work.js'

const probeBytes = 8 * 2 ** 20

const timed = async (work: () => unknown): Promise<number> => {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

async function median(rounds: number, work: () => unknown): Promise<number> {
  await work()
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) times.push(await timed(work))
  return percentile(times, 0.5)
}

const sha256 = (bytes: Uint8Array | undefined): string =>
  createHash('sha256')
    .update(bytes ?? '')
    .digest('hex')

/** The migrator's probe of a GPU, against the same bytes copied as an application would first write it. */
export async function probeFigures(open: OpenTarget<GPUDevice>): Promise<Figure[]> {
  const { target, handle: device } = open
  let measured: MeasuredRates = {}
  const times: number[] = []
  let preparing = 0
  for (let round = 0; round < 5; round += 1) {
    const begun = performance.now()
    await using hands = await probeHands(open)
    if (hands === undefined) throw new Error('no WebGPU target')
    if (round === 0) preparing = performance.now() - begun
    times.push(await timed(async () => (measured = await probeTarget(target, hands, { clock: systemClock }))))
  }
  const bytes = new Uint8Array(probeBytes).fill(7)
  const buffer = device.createBuffer({ size: probeBytes, usage: 0xc })
  const staging = device.createBuffer({ size: probeBytes, usage: 0x9 })
  const sendMs = await median(9, async () => {
    device.queue.writeBuffer(buffer, 0, bytes)
    await device.queue.onSubmittedWorkDone()
  })
  const fetchMs = await median(9, async () => {
    const encoder = device.createCommandEncoder()
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, probeBytes)
    device.queue.submit([encoder.finish()])
    await staging.mapAsync(1)
    bytes.set(new Uint8Array(staging.getMappedRange()))
    staging.unmap()
  })
  const link = (way: string, gBps: number | undefined, raw: string, ms: number): Figure => ({
    figure: `probe, link ${way} the device`,
    value: gBps ?? 0,
    unit: 'GB/s',
    against: `${raw} of ${probeBytes} bytes, ${(probeBytes / 1e6 / ms).toFixed(2)} GB/s`,
    ratio: (gBps ?? 0) / (probeBytes / 1e6 / ms),
  })
  const longest = Math.max(...times)
  return [
    link('to', measured.linkGBps?.toDevice, 'writeBuffer', sendMs),
    link('from', measured.linkGBps?.fromDevice, 'one staging buffer, mapped and copied,', fetchMs),
    {
      figure: 'probe, the longest of five',
      value: longest,
      unit: 'ms',
      against: 'the 100 ms it may take',
      ratio: longest / 100,
      bar: '<= 100 ms',
      pass: longest <= 100,
    },
    { figure: 'probe, compiling and warming up the first time', value: preparing, unit: 'ms' },
    {
      figure: 'probe, bytes read back and compared',
      value: measured.linkGBps === undefined ? 0 : 1,
      unit: 'same',
      bar: '1',
      pass: measured.linkGBps !== undefined,
    },
    { figure: 'probe, arithmetic', value: (measured.flops ?? 0) / 1e12, unit: 'TFLOP/s' },
    { figure: 'probe, memory', value: measured.memoryGBps ?? 0, unit: 'GB/s' },
    { figure: 'probe, round trip', value: measured.latencyMs ?? 0, unit: 'ms' },
  ]
}

interface Undisturbed {
  readonly field: FieldOptions
  readonly ms: number
  readonly sha: string
}

/** The work alone on a device of its own. */
async function alone(driver: ReturnType<typeof wgpuDriver>, id: string, field: FieldOptions): Promise<Undisturbed> {
  await using open = await driver.runtime.open(id)
  const work = new Field(field)
  await work.restore(open, undefined, { signal: new AbortController().signal })
  const ms = await timed(async () => {
    work.resume()
    await work.finished
  })
  await work.release({ lost: false })
  return { field, ms, sha: sha256(work.result) }
}

/** As many steps as take about `runMs`, and submits of about 5 ms. */
async function scaled(
  driver: ReturnType<typeof wgpuDriver>,
  target: ComputeTarget,
  options: MigratorOptions,
): Promise<FieldOptions> {
  const most = (target.limits?.['maxStorageBufferBindingSize'] ?? 2 ** 27) / 2 ** 20
  const mebibytes = Math.min(options.mebibytes, Math.floor(most))
  // What a run takes besides its steps: buffers, pipelines, reading the result.
  const { ms: besideMs } = await alone(driver, target.id, { mebibytes, steps: 4 })
  let [steps, ms] = [16, 0]
  while (ms < 500) {
    steps *= 4
    ms =
      (await alone(driver, target.id, { mebibytes, steps, batch: Math.min(512, Math.ceil(steps / 40)) })).ms - besideMs
  }
  const stepMs = ms / steps
  const batch = Math.min(512, Math.max(1, Math.round(5 / stepMs)))
  return { mebibytes, batch, steps: Math.ceil(options.runMs / stepMs) }
}

async function temporary<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'egpu-field-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

const exact = (figure: string, isExact: boolean): Figure => ({
  figure,
  value: isExact ? 1 : 0,
  unit: 'bit-exact',
  bar: '1',
  pass: isExact,
})

/** One run under a migrator with a store on disk; `during` may move it. */
async function cared(
  field: FieldOptions,
  startOn: string,
  during: (run: ReturnType<WorkloadMigrator['run']>, work: Field) => Promise<void>,
): Promise<{ ms: number; sha: string; checkpoints: number; work: Field }> {
  return await temporary(async (directory) => {
    await using manager = await EGpuManager.create({ drivers: [wgpuDriver()] })
    await manager.startMonitoring()
    let checkpoints = 0
    const failures: string[] = []
    manager.on('checkpoint-saved', () => void (checkpoints += 1))
    manager.on('checkpoint-failed', ({ error }) => void failures.push(error.message))
    await using store = directoryStore(directory)
    await using migrator = new WorkloadMigrator(manager, { store, probe: probeHands })
    const work = new Field(field)
    const begun = performance.now()
    const run = migrator.run(work, { startOn })
    await run.started
    const started = performance.now()
    await during(run, work)
    await run.finished
    const ms = performance.now() - started
    if (failures.length > 0) console.log('checkpoints that failed:', failures)
    console.log(`under the migrator: ${Math.round(started - begun)} ms to the start, ${Math.round(ms)} ms of work`)
    return { ms, sha: sha256(work.result), checkpoints, work }
  })
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** Work under a migrator at the default cadence, and moved from the GPU to the processor and back. */
export async function migratorFigures(options: MigratorOptions): Promise<readonly Figure[]> {
  await using driver = wgpuDriver()
  const targets = await driver.runtime.targets()
  const target = targets.find(({ kind }) => kind === 'gpu') ?? targets[0]
  if (target === undefined) throw new Error('no adapter')
  const field = await scaled(driver, target, options)
  console.log('the field', JSON.stringify(field))
  const before = await alone(driver, target.id, field)
  const home = `wgpu/${target.id}`
  const saved = await cared(field, home, async () => {})
  const after = await alone(driver, target.id, field)
  const plain = (before.ms + after.ms) / 2
  const overhead = saved.ms / plain - 1

  const where: string[] = []
  const moveMs: number[] = []
  const moved = await cared(field, home, async (run, work) => {
    const go = async (id: string): Promise<void> => {
      moveMs.push(await timed(() => run.moveTo(id)))
      where.push(run.where?.kind ?? 'nowhere')
      const from = work.progress
      await until(() => work.progress > from + 4)
    }
    // The cadence takes few in so short a time.
    for (let quarter = 0; quarter < 4; quarter += 1) {
      await until(() => work.progress > (field.steps / 16) * (quarter + 1))
      await run.checkpoint()
    }
    await go('cpu')
    await go(home)
  })

  const { movedBytes, dirtyBytes, freezes } = moved.work.saved

  const kills: number[] = []
  // Long enough for a checkpoint before each kill, and little of it is lost.
  const killed = { ...field, steps: 2 * field.steps }
  const expected = (await alone(driver, target.id, killed)).sha
  process.env['EGPU_FIELD'] = JSON.stringify(killed)
  const survival = survive(new URL(surviveWork, import.meta.url), {
    onDeath: (cause) => console.log('died of', cause),
    onEvent: ({ type }) => {
      const { pid } = survival
      // At the first checkpoint of each of the first two children.
      if (type !== 'checkpoint-saved' || pid === undefined || kills.length === 2 || kills.includes(pid)) return
      kills.push(pid)
      process.kill(pid, 'SIGKILL')
    },
  })
  await using _ = survival
  const survived = await survival.finished

  return [
    {
      figure: 'work under the migrator at the default cadence',
      value: saved.ms,
      unit: 'ms',
      against: `alone before and after, ${before.ms.toFixed(0)} and ${after.ms.toFixed(0)} ms; ${saved.checkpoints} checkpoints to a directory`,
      ratio: 1 + overhead,
      bar: '<= 1.035 x',
      pass: overhead <= 0.035,
    },
    {
      figure: 'bytes moved by checkpoints of what changed',
      value: movedBytes,
      unit: 'bytes',
      against: `${dirtyBytes} bytes worked on, in ${freezes} freezes of ${field.mebibytes} MiB each`,
      ...(dirtyBytes > 0 ? { ratio: movedBytes / dirtyBytes } : {}),
      bar: '<= 1.1 x, in one freeze or more',
      pass: freezes > 0 && movedBytes > 0 && movedBytes <= 1.1 * dirtyBytes,
    },
    exact('work with checkpoints', saved.sha === before.sha && before.sha === after.sha),
    {
      ...exact(`work moved from ${target.kind} to ${where.join(' and ')}`, moved.sha === before.sha),
      against: `an undisturbed run; the moves took ${moveMs.map((ms) => ms.toFixed(0)).join(' and ')} ms`,
    },
    {
      ...exact('work whose process was killed twice', survived === expected && kills.length === 2),
      against: `an undisturbed run; ${kills.length} processes killed with SIGKILL`,
    },
  ]
}
