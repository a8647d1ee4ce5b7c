import { createHash } from 'node:crypto'
import { abandonable, EGpuManager, RuntimeKind, ThunderboltSpeed } from '@egpu/core'
import type { Clock, EGpuEvent } from '@egpu/core'
import { seededRandom, simDriver, type SimBacking } from '@egpu/driver-sim'
import { cpuTarget, WorkloadMigrator } from '@egpu/migrator'
import { initialField, stepField } from './gray-scott.ts'
import { FieldWorkload } from './workload.ts'

export interface ScenarioOptions {
  readonly seed: number
  readonly size: number
  readonly steps: number
  readonly clock: Clock
  /** Steps between two chances to pause. */
  readonly batch: number
  readonly checkpointIntervalMs: number
  /** How long the GPU must be back before work returns to it. */
  readonly failBackAfterMs: number
  /** What a step takes on the processor, on a virtual clock. */
  readonly cpuStepMs: number
  /** What a step takes on the simulated GPU, on the simulator's clock. */
  readonly gpuStepMs: number
  readonly signal?: AbortSignal | undefined
  /** A real runtime behind the simulated GPU. */
  readonly backing?: SimBacking | undefined
  readonly onEvent?: ((event: EGpuEvent) => void) | undefined
  readonly onProgress?: ((progress: number, where: string | undefined) => void) | undefined
}

/** What the scenario does to the cable, fixed by the seed. */
export interface CablePlan {
  /** The cable is pulled this long after the workload has done so many steps: in the middle of the next ones. */
  readonly pullAtStep: number
  readonly pullDelayMs: number
  /** It is plugged in again once so many steps are done. */
  readonly plugAtStep: number
}

export interface ScenarioResult {
  readonly field: Uint32Array
  readonly sha256: string
  readonly plan: CablePlan
  /** Every target it ran on, in order. */
  readonly targets: readonly string[]
  /** Steps that had to be computed again after the cable was pulled. */
  readonly lostSteps: number
  /** From the first sign of the loss until it computed again. */
  readonly rtoMs: number
}

/** Where to pull and to plug: a third of the way, give or take, and well before the end. */
export function cablePlan({ seed, steps, batch, gpuStepMs }: ScenarioOptions): CablePlan {
  const random = seededRandom(seed)
  const pullAtStep = Math.floor(steps * random.between(0.2, 0.45))
  return {
    pullAtStep,
    pullDelayMs: random.between(0, 2 * batch * gpuStepMs),
    plugAtStep: pullAtStep + Math.floor(steps * random.between(0.1, 0.2)),
  }
}

/** A field of the same seed, computed on the processor with nothing in between. */
export function undisturbedField(size: number, seed: number, steps: number): Uint32Array {
  let current: Uint32Array = initialField(size, seed)
  let next: Uint32Array = new Uint32Array(current.length)
  for (let step = 0; step < steps; step += 1) {
    stepField(current, next, size)
    ;[current, next] = [next, current]
  }
  return current
}

export function sha256(field: Uint32Array): string {
  return createHash('sha256')
    .update(new Uint8Array(field.buffer, field.byteOffset, field.byteLength))
    .digest('hex')
}

/**
 * The main job: a field is computed on an external GPU, its cable is pulled, the work goes on elsewhere from its last
 * checkpoint, and returns when the GPU does.
 */
export async function runScenario(options: ScenarioOptions): Promise<ScenarioResult> {
  const { seed, size, clock, backing, onEvent, onProgress } = options
  const plan = cablePlan(options)
  const flops = (size * size * 40_000) / options.gpuStepMs
  await using driver = simDriver({
    clock,
    seed,
    enclosures: [
      {
        name: 'Core X V2',
        vendorName: 'Razer',
        speed: ThunderboltSpeed.TB4,
        plugged: true,
        gpus: [{ name: 'external GPU', flops, memoryGBps: 1_000, backing }],
      },
    ],
  })
  const box = driver.machine.enclosures[0]
  if (box === undefined) throw new TypeError('the simulated machine has no enclosure')
  await using manager = await EGpuManager.create({ drivers: [driver], clock })
  const outcomes: EGpuEvent<'migration-completed'>[] = []
  manager.on('migration-completed', (event) => void outcomes.push(event))
  const collecting = new AbortController()
  const events = (async () => {
    for await (const event of manager.events({ signal: collecting.signal })) onEvent?.(event)
  })()
  await manager.startMonitoring()
  await using migrator = new WorkloadMigrator(manager, {
    checkpointIntervalMs: options.checkpointIntervalMs,
    failBackAfterMs: options.failBackAfterMs,
    // Slower than the GPU, or the work would begin on the processor.
    cpu: () => cpuTarget({ flops: flops / 8 }),
  })

  let cable: 'in' | 'pulling' | 'out' | 'back' = 'in'
  const pull = async (): Promise<void> => {
    cable = 'pulling'
    await clock.sleep(plan.pullDelayMs)
    box.yank()
    cable = 'out'
  }
  const workload = new FieldWorkload({
    ...options,
    runtimes: [RuntimeKind.WebGpu, RuntimeKind.Simulated, RuntimeKind.Cpu],
    onProgress: (progress) => {
      onProgress?.(progress, run.where?.name)
      if (cable === 'in' && progress >= plan.pullAtStep) void pull()
      if (cable === 'out' && progress >= plan.plugAtStep) {
        cable = 'back'
        box.plug()
      }
    },
  })
  const run = migrator.run(workload)
  try {
    await abandonable(run.finished, options.signal)
  } finally {
    collecting.abort()
    await events
  }
  const field = workload.result
  if (field === undefined) throw new TypeError('the workload finished without a result')
  const loss = outcomes.find(({ migration }) => migration.reason === 'device-lost')
  if (loss === undefined) throw new TypeError('the cable was never pulled: the field was finished before')
  const started = outcomes.map(({ migration }) => migration)
  return {
    field,
    sha256: sha256(field),
    plan,
    targets: [loss.migration.from, ...started.map(({ to }) => to)].flatMap((target) => target?.name ?? []),
    lostSteps: loss.migration.lostProgress,
    rtoMs: loss.migration.rtoMs,
  }
}
