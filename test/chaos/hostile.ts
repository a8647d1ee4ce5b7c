import { EGpuManager, RuntimeKind } from '@egpu/core'
import type { EGpuEvent, FrozenState, OpenTarget, SavedState } from '@egpu/core'
import { seededRandom, simDriver, VirtualClock } from '@egpu/driver-sim'
import type { Random, SimDriver, SimEnclosure, SimCard, SimMachineDescription } from '@egpu/driver-sim'
import { cpuTarget, MigrationStrategy, WorkloadMigrator } from '@egpu/migrator'
import { sha256, undisturbedField } from '../../packages/cli/src/demo/scenario.ts'
import { FieldWorkload } from '../../packages/cli/src/demo/workload.ts'
import type { FieldOptions } from '../../packages/cli/src/demo/workload.ts'
import type { SeedOptions } from '../../packages/migrator/test/helpers/seeds.ts'

export interface HostileOutcome {
  readonly seeds: number
  /** Workloads over all seeds, each of which ended with the result of an undisturbed run unless it is in `failures`. */
  readonly workloads: number
  readonly disturbances: number
  readonly failures: readonly { readonly seed: number; readonly message: string }[]
}

const disturbances = [
  'yank',
  'yank',
  'yank',
  'plug',
  'wedge',
  'wedge silently',
  'reset',
  'flap',
  'degrade link',
  'restore link',
  'overflow',
  'deauthorize',
  'authorize',
  'leak memory',
  'heat',
  'disconnect',
  'swap',
  'yank all',
  'count errors',
] as const
type Disturbance = (typeof disturbances)[number]

/** What every seed is checked against that the state machine may not do, whatever happens. */
interface Verdict {
  readonly workloads: number
  readonly disturbances: number
  readonly problems: readonly string[]
  /** All that was heard, for the comparison with a second run of the same seed. */
  readonly log: readonly string[]
}

/** Work that is kept off the only device that it hangs waits there for an hour. */
const patienceMs = 2 * 3_600_000

/** One in so many seeds runs twice: the same seed has to take the same path. */
const repeatEvery = 20

/**
 * Several boxes with several GPUs, several workloads, and up to a dozen things broken at any time, on a machine that is
 * set up anew for each seed. In the end everything is plugged in and every workload has to finish.
 */
export async function hostile({ first = 1, seeds, onProgress }: SeedOptions): Promise<HostileOutcome> {
  const failures: { seed: number; message: string }[] = []
  let workloads = 0
  let disturbed = 0
  for (let seed = first; seed < first + seeds; seed += 1) {
    const verdict = await attempt(seed)
    workloads += verdict.workloads
    disturbed += verdict.disturbances
    const problems = [...verdict.problems]
    if (seed % repeatEvery === 0) {
      const again = await attempt(seed)
      const at = verdict.log.findIndex((line, i) => line !== again.log[i])
      if (at !== -1) problems.push(`not the same twice: ${verdict.log[at]} | ${again.log[at]}`)
    }
    for (const message of problems) failures.push({ seed, message })
    onProgress?.(seed - first + 1)
  }
  return { seeds, workloads, disturbances: disturbed, failures }
}

async function attempt(seed: number): Promise<Verdict> {
  const random = seededRandom(seed)
  const clock = new VirtualClock()
  const log: string[] = []
  const problems: string[] = []
  const boxes = 1 + random.integer(3)
  const timing = {
    presentAfterMs: random.pick([0, 0, 3, 20]),
    readyAfterMs: random.pick([0, 0, 2, 30]),
    answerMs: random.pick([0, 0, 1, 5]),
    ejectStepMs: random.pick([0, 2]),
  }
  const size = random.pick([8, 16, 24])
  const steps = 100 + random.integer(300)
  const batch = random.pick([1, 3, 7, 10, 50])
  const gpuStepMs = random.pick([0.2, 1, 3])
  const flops = (size * size * 40_000) / gpuStepMs
  const driver = simDriver({ clock, seed, timing, ...cards(random, boxes, flops) })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock, driverTimeoutMs: 500 }))
  const stop = new AbortController()
  const reading = (async () => {
    for await (const event of manager.events({ signal: stop.signal })) log.push(asLine(event))
  })()
  await clock.runUntil(manager.startMonitoring({ healthIntervalMs: random.pick([0, 50]) }))
  const migrator = new WorkloadMigrator(manager, {
    strategy: random.pick([MigrationStrategy.Eager, MigrationStrategy.Lazy]),
    checkpointIntervalMs: random.pick([5, 40, 100, 1_000]),
    failBackAfterMs: random.pick([0, 10, 30, Infinity]),
    preferCpuFallback: random.next() < 0.3,
    maxConcurrentMigrations: 1 + random.integer(4),
    migrationTimeoutMs: random.pick([50, 200, 5_000]),
    cpu: random.next() < 0.15 ? false : () => cpuTarget({ flops: flops / 8 }),
  })
  const field = { size, steps, batch, clock, gpuStepMs, runtimes: [RuntimeKind.Simulated, RuntimeKind.Cpu] }
  const works = Array.from(
    { length: 1 + random.integer(3) },
    (_, i) =>
      new CheckedField({ ...field, id: `w${i}`, seed: seed + i, cpuStepMs: random.pick([1, 2]) }, (problem) =>
        problems.push(problem),
      ),
  )
  const runs = works.map((work) => migrator.run(work))
  const count = 2 + random.integer(12)
  try {
    const finished = Promise.all(runs.map((run) => run.finished))
    await clock.runUntil(Promise.all([finished, disturb(random, clock, driver, manager, count, log)]), {
      limitMs: patienceMs,
    })
    for (const [i, { result }] of works.entries()) {
      const expected = sha256(undisturbedField(size, seed + i, steps))
      const found = result === undefined ? 'nothing' : sha256(result)
      if (found !== expected) problems.push(`w${i} ended with ${found} instead of ${expected}`)
    }
    await clock.advance(1_000)
    problems.push(...(await disagreements(clock, driver, manager)))
    // A driver that answers late in the middle of all this is what is being played.
    const failed = log.filter((line) => / (driver|listener)-failed /.test(line))
    problems.push(...failed.filter((line) => !/health.sample|has not answered|has not left/.test(line)))
  } catch (error) {
    const where = runs.map(({ state, where: on }) => `${state} on ${on?.id ?? 'nothing'}`).join(', ')
    problems.push(`${error instanceof Error ? (error.stack ?? error.message) : String(error)} (${where})`)
  }
  const closing = (async () => {
    await migrator.close()
    await manager.close()
  })()
  await clock.runUntil(closing, { limitMs: 100_000 }).catch((error: unknown) => {
    problems.push(`does not close: ${String(error)}`)
  })
  stop.abort()
  await reading
  return { workloads: works.length, disturbances: count, problems, log }
}

function cards(random: Random, boxes: number, flops: number): Pick<SimMachineDescription, 'gpus' | 'enclosures'> {
  return {
    gpus: random.next() < 0.2 ? [{ id: 'inner', flops: flops / 4 }] : [],
    enclosures: Array.from({ length: boxes }, (_box, b) => ({
      id: `box-${b}`,
      plugged: true,
      gpus: Array.from({ length: 1 + random.integer(2) }, (_gpu, g) => ({
        id: `gpu-${b}-${g}`,
        flops: flops * (1 + g),
        // Some have room for hardly one of the workloads.
        memoryBytes: random.next() < 0.2 ? 64 * 2 ** 20 + 8_000 : undefined,
      })),
    })),
  }
}

/** Breaks things for a while, and in the end repairs all of them. */
async function disturb(
  random: Random,
  clock: VirtualClock,
  driver: SimDriver,
  manager: EGpuManager,
  count: number,
  log: string[],
): Promise<void> {
  const { machine: hands } = driver
  for (let i = 0; i < count; i += 1) {
    await clock.sleep(random.between(0, 80))
    const box = random.pick(hands.enclosures)
    const gpu = random.pick(box.gpus)
    const what = random.pick(disturbances)
    log.push(`${clock.now()} DO ${what} ${box.id} ${gpu.key}`)
    try {
      await harm({ what, box, gpu }, random, driver, manager, log)
    } catch (error) {
      // A hand that finds the cable out already.
      log.push(`${clock.now()} HAND ${String(error)}`)
    }
  }
  await clock.sleep(300)
  for (const box of hands.enclosures) {
    if (box.port === undefined) box.plug()
    box.authorize()
    box.restoreLink()
  }
  await clock.sleep(100)
  for (const gpu of hands.gpus) if (gpu.stage !== 'absent') gpu.reset()
}

async function harm(
  { what, box, gpu }: { readonly what: Disturbance; readonly box: SimEnclosure; readonly gpu: SimCard },
  random: Random,
  { machine: hands }: SimDriver,
  manager: EGpuManager,
  log: string[],
): Promise<void> {
  switch (what) {
    case 'yank':
      return box.yank()
    case 'yank all':
      return hands.enclosures.forEach((each) => each.yank())
    case 'plug':
      return box.port === undefined ? box.plug() : undefined
    case 'swap': {
      const other = random.pick(hands.enclosures)
      const [ours, theirs] = [box.port, other.port]
      other.yank()
      box.yank()
      if (ours !== undefined) other.plug({ port: ours })
      if (other !== box && theirs !== undefined) box.plug({ port: theirs })
      return
    }
    case 'flap':
      return box.port === undefined
        ? undefined
        : box.flap({ times: 1 + random.integer(4), everyMs: random.pick([0, 1, 10]) })
    case 'wedge':
      return gpu.wedge()
    case 'wedge silently':
      return gpu.wedge({ silent: true })
    case 'reset':
      return gpu.reset()
    case 'degrade link':
      return box.port === undefined ? undefined : box.degradeLink()
    case 'restore link':
      return box.restoreLink()
    case 'overflow':
      return hands.overflow()
    case 'deauthorize':
      return box.deauthorize()
    case 'authorize':
      return box.authorize()
    case 'leak memory':
      return gpu.leakMemory(2 ** 40)
    case 'heat':
      return gpu.heat(120)
    case 'count errors':
      return gpu.countErrors({ fatal: 3 })
    case 'disconnect': {
      const device = manager.devices.find(({ sources }) => sources[0]?.key === gpu.key)
      if (device === undefined) return
      manager.safeDisconnect(device.id, { deadlineMs: random.pick([5, 100, 1_000]) }).then(
        ({ safeToUnplug }) => log.push(`disconnected ${safeToUnplug}`),
        (error: unknown) => log.push(`disconnect failed ${String(error)}`),
      )
    }
  }
}

/** What the manager believes of a machine on which everything is in order again. */
async function disagreements(clock: VirtualClock, driver: SimDriver, manager: EGpuManager): Promise<string[]> {
  const problems: string[] = []
  const keys = (list: readonly string[]): string => [...list].sort((a, b) => a.localeCompare(b)).join()
  const there = keys((await clock.runUntil(driver.list())).devices.map(({ key }) => key))
  const seen = keys(manager.devices.map(({ sources }) => sources[0]?.key ?? 'no driver'))
  if (there !== seen) problems.push(`the manager sees ${seen}, the driver ${there}`)
  const cards = driver.machine.gpus.length
  if (manager.registry.size > cards) problems.push(`${manager.registry.size} ids for ${cards} cards`)
  for (const { id, state } of manager.devices) {
    if (!['ready', 'degraded', 'active'].includes(state)) problems.push(`${id} ended as ${state}`)
  }
  return problems
}

function asLine(event: EGpuEvent): string {
  const device = 'device' in event ? `${event.device.id} ${event.device.state} ${event.device.epoch}` : ''
  const migration = 'migration' in event ? JSON.stringify(event.migration) : ''
  const error = 'error' in event ? String(event.error) : ''
  return `${event.atMs} ${event.type} ${device} ${migration} ${error}`
}

/** Holds every state that is drained or restored against the one that belongs to its progress. */
class CheckedField extends FieldWorkload {
  readonly #field: FieldOptions
  readonly #complain: (problem: string) => void

  constructor(field: FieldOptions, complain: (problem: string) => void) {
    super(field)
    this.#field = field
    this.#complain = complain
  }

  override async restore(
    target: OpenTarget,
    state: SavedState | undefined,
    options: { signal: AbortSignal },
  ): Promise<void> {
    const checked = state === undefined ? undefined : this.#checked('restored', state)
    await super.restore(target, checked, options)
  }

  override async freeze(options: { signal: AbortSignal }): Promise<FrozenState> {
    const frozen = await super.freeze(options)
    return { ...this.#checked('saved', frozen), [Symbol.asyncDispose]: () => frozen[Symbol.asyncDispose]() }
  }

  #checked(what: string, state: SavedState): SavedState {
    const { size, seed } = this.#field
    const { progress, parts } = state
    const complain = (): void => this.#complain(`${this.id}: a wrong field was ${what} at step ${progress}`)
    return {
      progress,
      parts,
      async *read(name, options) {
        const pieces: Uint8Array[] = []
        for await (const piece of state.read(name, options)) {
          pieces.push(piece.slice())
          yield piece
        }
        const bytes = Buffer.concat(pieces)
        const found = sha256(new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)))
        if (found !== sha256(undisturbedField(size, seed, progress))) complain()
      },
    }
  }
}
