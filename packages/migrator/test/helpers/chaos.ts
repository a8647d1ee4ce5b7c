import { EGpuManager } from '@egpu/core'
import type { Clock, EGpuEvent } from '@egpu/core'
import { seededRandom, simDriver, VirtualClock } from '@egpu/driver-sim'
import type { Random } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import type { WorkloadRun } from '@egpu/migrator'
import { directoryStore } from '@egpu/migrator/node'
import { CrashFs } from './crash-fs.ts'
import { mixed, Mixer } from './mixer.ts'
import type { SeedOptions } from './seeds.ts'

export interface ChaosOutcome {
  /** Runs, each with one thing broken at one point. */
  readonly kills: number
  readonly byKind: Readonly<Record<string, number>>
  /** Runs that ended with the result of an undisturbed one. */
  readonly identical: number
  readonly doubleOwners: number
  /** Checkpoints that were promised to last and were not there after a crash. */
  readonly lostCheckpoints: number
  /** Points in one run: contract calls, file-system calls, and everything that takes time. */
  readonly pointsPerRun: number
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
}

const words = 48
const steps = 90
const reference = mixed(words, steps)

/** What can be broken. */
const kinds = ['yank', 'yank all', 'wedge', 'silent wedge', 'flap', 'eject', 'move', 'crash', 'crash'] as const
type Kind = (typeof kinds)[number]

/** What is left of a process that died. */
interface Remains {
  readonly fs: CrashFs
  /** Progress of the newest checkpoint that was reported as saved. */
  readonly promised: number
}

interface Life {
  readonly random: Random
  readonly fs: CrashFs
  /** Where to break something, counted in points; never if undefined. */
  readonly killAt: number | undefined
  readonly kind: Kind
  readonly promised: number
}

type End =
  | { readonly died: Remains }
  | { readonly died: undefined; readonly points: number; readonly mixer: Mixer; readonly resumedAt: number }

/**
 * Breaks one thing at one point of a run, a different point for each seed, and lets the run go on to its end; after a
 * crash of the process in a new one. In virtual time: every run of a seed takes the same path.
 */
export async function chaos({ first = 1, seeds, onProgress }: SeedOptions): Promise<ChaosOutcome> {
  const failures: { seed: number; message: string }[] = []
  const byKind: Record<string, number> = {}
  let identical = 0
  let doubleOwners = 0
  let lostCheckpoints = 0
  const undisturbed = await live({
    random: seededRandom(first),
    fs: new CrashFs(),
    killAt: undefined,
    kind: 'yank',
    promised: 0,
  })
  if (undisturbed.died !== undefined) throw new Error('an undisturbed run died')
  const pointsPerRun = undisturbed.points
  for (let seed = first; seed < first + seeds; seed += 1) {
    const random = seededRandom(seed)
    const kind = kinds[seed % kinds.length] as Kind
    // Each point once before any twice, but far apart: the factor is a prime.
    const killAt = 1 + ((Math.floor(seed / kinds.length) * 611_953) % pointsPerRun)
    byKind[kind] = (byKind[kind] ?? 0) + 1
    try {
      let fs = new CrashFs()
      let promised = 0
      for (let lives = 0; ; lives += 1) {
        const isLast = lives === 3
        const at = lives === 0 ? killAt : Math.ceil(random.between(0, pointsPerRun))
        const end = await live({ random, fs, killAt: isLast ? undefined : at, kind, promised })
        if (end.died === undefined) {
          doubleOwners += end.mixer.doubleOwners
          if (end.resumedAt < promised) lostCheckpoints += 1
          if (end.mixer.result === reference) identical += 1
          else failures.push({ seed, message: `${kind} at ${killAt}: ${end.mixer.result ?? 'no result'}` })
          break
        }
        fs = end.died.fs
        promised = end.died.promised
      }
    } catch (error) {
      failures.push({ seed, message: `${kind} at ${killAt}: ${error instanceof Error ? error.stack : String(error)}` })
    }
    onProgress?.(seed - first + 1)
  }
  return { kills: seeds, byKind, identical, doubleOwners, lostCheckpoints, pointsPerRun, failures }
}

/** One process, from its start to the end of the work or its own. */
async function live({ random, fs, killAt, kind, promised: before }: Life): Promise<End> {
  const real = new VirtualClock()
  let points = 0
  let promised = before
  let die: (remains: Remains) => void = () => undefined
  const died = new Promise<Remains>((resolve) => {
    die = resolve
  })
  let breakNow: () => void = () => undefined
  /** A place where something can break. Settles never once the process is dead. */
  const point = (): Promise<void> | undefined => {
    points += 1
    if (points === killAt) breakNow()
    return points >= (killAt ?? Infinity) && kind === 'crash' ? new Promise(() => undefined) : undefined
  }
  fs.hook = () => point()
  const clock: Clock = {
    now: () => real.now(),
    sleep: async (ms, options) => {
      await point()
      await real.sleep(ms, options)
      await point()
    },
  }
  const driver = simDriver({
    clock,
    enclosures: ['A', 'B'].map((name) => ({ id: `box-${name}`, plugged: true, gpus: [{ id: `gpu-${name}`, name }] })),
  })
  const boxes = driver.machine.enclosures
  const work = async (): Promise<End> => {
    const manager = await EGpuManager.create({ drivers: [driver], clock })
    manager.on('checkpoint-saved', ({ progress }: EGpuEvent<'checkpoint-saved'>) => {
      promised = Math.max(promised, progress)
    })
    await manager.startMonitoring({ healthIntervalMs: 0 })
    const store = directoryStore('/store', { fs, chunkBytes: 96 })
    const migrator = new WorkloadMigrator(manager, {
      store,
      checkpointIntervalMs: 12,
      migrationTimeoutMs: 120,
      failBackAfterMs: 15,
    })
    const mixer = new Mixer({
      clock,
      words,
      steps,
      fault: () => {
        void point()
        return undefined
      },
    })
    let run: WorkloadRun | undefined
    points = 0
    breakNow = () =>
      kind === 'crash' ? die({ fs: fs.crash(() => random.between(0, 1)), promised }) : harm(run, manager)
    run = migrator.run(mixer, { keepCheckpoints: true })
    await run.started
    const resumedAt = mixer.progress
    await run.finished
    const pointsToTheEnd = points
    // What is left is no longer about the work.
    points = -Infinity
    await migrator.close()
    await store.close()
    await manager.close()
    return { died: undefined, points: pointsToTheEnd, mixer, resumedAt }
  }
  const replugLater = async (): Promise<void> => {
    await real.sleep(random.between(0, 60))
    for (const box of boxes) if (box.port === undefined) box.plug()
  }
  const harm = (run: WorkloadRun | undefined, manager: EGpuManager): void => {
    const name = run?.where?.name ?? (random.between(0, 1) < 0.5 ? 'A' : 'B')
    const at = Math.max(0, ['A', 'B'].indexOf(name))
    const box = boxes[at]
    const card = box?.gpus[0]
    if (kind === 'yank') box?.yank()
    if (kind === 'yank all') for (const each of boxes) each.yank()
    if (kind === 'wedge' && card?.stage === 'ready') card.wedge()
    if (kind === 'silent wedge' && card?.stage === 'ready') card.wedge({ silent: true })
    if (kind === 'flap' && box?.port !== undefined) void box.flap({ times: 2, everyMs: random.between(0, 20) })
    if (kind === 'eject') {
      const id = run?.where?.deviceId
      if (id !== undefined) manager.safeDisconnect(id).catch(() => undefined)
    }
    if (kind === 'move') run?.moveTo(`sim/sim:gpu-${name === 'A' ? 'B' : 'A'}`).catch(() => undefined)
    if (kind.startsWith('yank')) void replugLater()
  }
  return real.runUntil(Promise.race([work(), died.then((remains): End => ({ died: remains }))]), { limitMs: 600_000 })
}
