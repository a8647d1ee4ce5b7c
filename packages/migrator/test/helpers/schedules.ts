import { EGpuManager } from '@egpu/core'
import type { Checkpointable, EGpuEvent } from '@egpu/core'
import { seededRandom, simDriver, VirtualClock } from '@egpu/driver-sim'
import type { Random, SimDriver } from '@egpu/driver-sim'
import { MigrationStrategy, WorkloadMigrator } from '@egpu/migrator'
import type { WorkloadRun } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { contractBreaches, migrationBreaches } from './bookkeeping.ts'
import { CrashFs } from './crash-fs.ts'
import { mixed, Mixer } from './mixer.ts'
import { notebook } from './notebook.ts'
import type { Notebook } from './notebook.ts'
import { pagedReference, PagedWork } from './paged-work.ts'
import type { SeedOptions } from './seeds.ts'

export interface SchedulesOutcome {
  readonly seeds: number
  /** Over all seeds; each ended with the result of an undisturbed one unless it is in `failures`. */
  readonly works: number
  readonly actions: number
  readonly crashes: number
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
}

const size = { words: 32, pages: 8, pageBytes: 256 } as const
const steps = 70
const perStep = 2
const references = {
  mixer: mixed(size.words, steps),
  paged: pagedReference(size.pages, size.pageBytes, steps, perStep),
}

/** Memory of one GPU, of which the simulated runtime takes 64 MiB: by what they declare, two of one kind fit, not three. */
const memoryBytes = 64 * 2 ** 20 + 20_000
const workBytes = 30 * 2 ** 20

const actions = [
  'yank',
  'yank',
  'plug',
  'wedge',
  'flap',
  'eject',
  'move',
  'move',
  'checkpoint',
  'report',
  'close and run again',
] as const

type Subject = Checkpointable & Pick<Mixer, 'calls' | 'doubleOwners' | 'result'>

/** What outlives a process, and what was promised to. */
interface Remains {
  readonly fs: CrashFs
  readonly journal: Notebook
  readonly promised: Map<string, number>
}

type End = { readonly remains: Remains } | { readonly problems: readonly string[] }

/**
 * Several workloads of two kinds share GPUs that have no room for all, in one store with one journal, while cables come
 * out, devices hang, users move and close work, and now and then the whole process ends. In virtual time.
 */
export async function schedules({ first = 1, seeds, onProgress }: SeedOptions): Promise<SchedulesOutcome> {
  const failures: { seed: number; message: string }[] = []
  const count = { works: 0, actions: 0, crashes: 0 }
  for (let seed = first; seed < first + seeds; seed += 1) {
    const random = seededRandom(seed)
    const ids = Array.from({ length: 2 + random.integer(4) }, (_, i) => `w${i}`)
    let remains: Remains = { fs: new CrashFs(), journal: notebook(), promised: new Map() }
    count.works += ids.length
    try {
      for (let lives = 0; ; lives += 1) {
        const end = await live(random, ids, remains, lives < 3 && random.next() < 0.5, () => (count.actions += 1))
        if ('problems' in end) {
          for (const message of end.problems) failures.push({ seed, message })
          break
        }
        count.crashes += 1
        remains = end.remains
      }
    } catch (error) {
      failures.push({ seed, message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
    onProgress?.(seed - first + 1)
  }
  return { seeds, ...count, failures }
}

/** One process, from its start to the end of all work or its own. */
async function live(
  random: Random,
  ids: readonly string[],
  { fs, journal, promised }: Remains,
  mayCrash: boolean,
  onAction: () => void,
): Promise<End> {
  const clock = new VirtualClock()
  const driver = simDriver({
    clock,
    enclosures: ['A', 'B', 'C'].slice(0, 2 + random.integer(2)).map((name) => ({
      id: `box-${name}`,
      plugged: true,
      gpus: [{ id: `gpu-${name}`, name, memoryBytes }],
    })),
  })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  const events: EGpuEvent[] = []
  for (const type of ['migration-started', 'migration-completed', 'migration-failed'] as const) {
    manager.on(type, (event) => void events.push(event))
  }
  manager.on('checkpoint-saved', ({ workloadId, progress }) => {
    promised.set(workloadId, Math.max(progress, promised.get(workloadId) ?? 0))
  })
  await clock.runUntil(manager.startMonitoring({ healthIntervalMs: random.pick([0, 50]) }))
  const store = directoryStore('/store', { fs, chunkBytes: 96 })
  const migrator = new WorkloadMigrator(manager, {
    store,
    journal,
    strategy: random.pick(Object.values(MigrationStrategy)),
    maxConcurrentMigrations: 1 + random.integer(3),
    checkpointIntervalMs: random.pick([10, 40, undefined]),
    migrationTimeoutMs: 200,
    failBackAfterMs: random.pick([0, 20, Infinity]),
    bytesPerSecond: random.pick([undefined, 20_000]),
  })
  const problems: string[] = []
  const works: Subject[] = []
  const runs = new Map<string, WorkloadRun>()
  const over = new Map<string, Promise<unknown>>()
  const begin = (id: string): void => {
    const work = workOf(id, clock)
    const constraints = random.next() < 0.3 ? { never: [`sim/sim:gpu-${random.pick(['A', 'B', 'C'])}`] } : undefined
    const run = migrator.run(work, { keepCheckpoints: true, priority: random.integer(3), constraints })
    works.push(work)
    runs.set(id, run)
    const begun = promised.get(id) ?? 0
    run.started.then(
      () => {
        const restored = work.calls.find((call) => call.startsWith('restore'))
        const at = Number(/\d+/.exec(restored ?? '')?.[0] ?? 0)
        if (at < begun) problems.push(`${id} began at ${at}, ${begun} had been saved`)
      },
      () => undefined,
    )
    const ended = run.finished.then(() => {
      if (work.result !== referenceOf(id)) problems.push(`${id} ended with ${work.result}`)
    })
    ended.catch(() => undefined)
    over.set(id, ended)
  }
  const act = async (): Promise<void> => {
    onAction()
    const id = random.pick(ids)
    const run = runs.get(id)
    const box = random.pick(driver.machine.enclosures)
    const card = box.gpus[0]
    const what = random.pick(actions)
    if (what === 'yank') box.yank()
    if (what === 'plug' && box.port === undefined) box.plug()
    if (what === 'wedge' && card?.stage === 'ready') card.wedge({ silent: random.next() < 0.3 })
    if (what === 'flap' && box.port !== undefined)
      box.flap({ times: 2, everyMs: random.between(0, 20) }).catch(() => undefined)
    if (what === 'eject') {
      const device = random.pick(manager.devices.length > 0 ? manager.devices : [undefined])
      if (device !== undefined) manager.safeDisconnect(device.id).catch(() => undefined)
    }
    if (what === 'move') run?.moveTo(random.pick(['cpu', 'sim/sim:gpu-A', 'sim/sim:gpu-B'])).catch(() => undefined)
    if (what === 'checkpoint') run?.checkpoint().catch(() => undefined)
    if (what === 'report') {
      const deviceId = run?.where?.deviceId
      if (deviceId !== undefined) void migrator.onDeviceFailure(deviceId)
    }
    if (what === 'close and run again' && run !== undefined && run.state !== 'finished') {
      await run.close()
      begin(id)
    }
  }
  /** Devices that hung one after another made it look like the cause; its user knows better. */
  const again = async (id: string, error: unknown): Promise<void> => {
    if (!String(error).includes('was running each time')) throw error
    begin(id)
    await over.get(id)
  }
  const play = async (): Promise<End> => {
    for (const id of ids) begin(id)
    for (let left = 3 + random.integer(9); left > 0; left -= 1) {
      await clock.sleep(random.between(0, 40))
      await act()
    }
    await repaired(driver, clock)
    for (const id of migrator.quarantined) migrator.trust(id)
    await Promise.all([...over].map(([id, ended]) => ended.catch((error: unknown) => again(id, error))))
    await migrator.close()
    await store.close()
    await manager.close()
    for (const work of works) problems.push(...contractBreaches(work).map((breach) => `${work.id}: ${breach}`))
    return { problems: [...problems, ...migrationBreaches(events)] }
  }
  const crash = async (): Promise<End> => {
    await clock.sleep(random.between(0, 250))
    return { remains: { fs: fs.crash(() => random.next()), journal, promised } }
  }
  try {
    return await clock.runUntil(Promise.race([play(), ...(mayCrash ? [crash()] : [])]), { limitMs: 60_000 })
  } catch (error) {
    const where = [...runs].map(
      ([id, { state, where: on, workload }]) => `${id} ${state} at ${workload.progress} on ${on?.name ?? 'nothing'}`,
    )
    throw new Error(`${String(error)} (${where.join(', ')})`, { cause: error })
  }
}

/** In the end everything is plugged in and works. */
async function repaired({ machine }: SimDriver, clock: VirtualClock): Promise<void> {
  await clock.sleep(300)
  for (const box of machine.enclosures) {
    // An ejected one is on its cable, but off the bus until that is pulled.
    if (box.port !== undefined && box.gpus.some(({ stage }) => stage === 'absent')) box.yank()
    if (box.port === undefined) box.plug()
  }
  await clock.sleep(100)
  for (const card of machine.gpus) if (card.stage !== 'absent') card.reset()
}

/** Every other one can be copied while it works. */
function workOf(id: string, clock: VirtualClock): Subject {
  if (Number(id.slice(1)) % 2 === 0) return new Mixer({ clock, id, words: size.words, steps, memoryBytes: workBytes })
  return new PagedWork({ clock, id, pages: size.pages, pageBytes: size.pageBytes, steps, perStep })
}

function referenceOf(id: string): string {
  return Number(id.slice(1)) % 2 === 0 ? references.mixer : references.paged
}
