import { EGpuManager } from '@egpu/core'
import type { Checkpointable, ComputeTarget, FrozenState, RuntimeKind } from '@egpu/core'
import { simDriver, VirtualClock } from '@egpu/driver-sim'
import { chooseTarget, RunState, WorkloadMigrator } from '@egpu/migrator'
import { percentile } from '../figure.ts'
import type { Figure } from '../figure.ts'

const devices = 1_000
const lostShare = 0.3
const stormMs = 60_000

/** 30 % of 1,000 devices are pulled within a minute, with half and with all of 10,000 workloads on them. */
export async function measure(): Promise<Figure[]> {
  const half = await storm(5_000)
  const full = await storm(10_000)
  const growth = full.bytes / half.bytes
  const planning = planMs()
  return [
    {
      figure: 'workloads placed or parked after the storm',
      value: full.settled,
      unit: 'workloads',
      against: `10,000 workloads, ${devices * lostShare} of ${devices} devices lost in a minute`,
      ratio: full.settled / 10_000,
      bar: 'all',
      pass: full.settled === 10_000,
    },
    {
      figure: 'memory with twice the workloads',
      value: full.bytes / 1e6,
      unit: 'MB',
      against: `${(half.bytes / 1e6).toFixed(1)} MB with 5,000`,
      ratio: growth,
      bar: '<= 2.2 x',
      pass: growth <= 2.2,
    },
    {
      figure: 'choosing a target among 1,000 for one workload',
      value: planning,
      unit: 'ms',
      against: 'with 10 workloads on each and measured rates of all',
      bar: '<= 1 ms',
      pass: planning <= 1,
    },
    {
      figure: 'moves per second of real time',
      value: full.moves / full.seconds,
      unit: '1/s',
      against: `${full.moves} moves`,
    },
  ]
}

/** The plan alone, as a run makes it: every target is weighed. Median, so that the machine's other work does not count. */
function planMs(): number {
  const targets = Array.from({ length: devices }, (_, i): ComputeTarget => ({
    id: `gpu-${i}`,
    name: `GPU ${i}`,
    kind: 'gpu',
    runtime: 'simulated',
    removable: true,
    memoryBytes: 8 * 2 ** 30,
    flops: 1e13 * (1 + (i % 7)),
  }))
  const use = { workloads: 10, bytes: 640 * 2 ** 20 }
  const times = Array.from({ length: 101 }, () => {
    const startedAt = performance.now()
    chooseTarget({
      needs: {
        runtimes: ['simulated', 'cpu'],
        memoryBytes: 64 * 2 ** 20,
        profile: { flops: 1e10, toDeviceBytes: 1e6 },
      },
      job: { unitsLeft: 1e6, stateBytes: 64 * 2 ** 20 },
      targets,
      use: () => use,
      circumstances: () => ({ measured: { linkGBps: { toDevice: 2.6, fromDevice: 2.6 } }, lossesPerHour: 0.1 }),
    })
    return performance.now() - startedAt
  })
  return percentile(times, 0.5)
}

async function storm(workloads: number): Promise<{ settled: number; bytes: number; moves: number; seconds: number }> {
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const clock = new VirtualClock()
  const driver = simDriver({
    clock,
    enclosures: Array.from({ length: devices }, (_, i) => ({ plugged: true, gpus: [{ id: `gpu-${i}` }] })),
  })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  await clock.runUntil(manager.startMonitoring({ healthIntervalMs: 0 }))
  const migrator = new WorkloadMigrator(manager, {
    checkpointIntervalMs: 1e9,
    maxConcurrentMigrations: 64,
    failBackAfterMs: Infinity,
  })
  let moves = 0
  manager.on('migration-completed', () => (moves += 1))
  const runs = Array.from({ length: workloads }, (_, i) => migrator.run(idle(`w${i}`)))
  await clock.runUntil(Promise.all(runs.map(({ started }) => started)))
  const startedAt = performance.now()
  const boxes = driver.machine.enclosures
  for (let i = 0; i < devices * lostShare; i += 1) {
    boxes[(i * 7) % devices]?.yank()
    await clock.advance(stormMs / (devices * lostShare))
  }
  await clock.advance(60_000)
  const seconds = (performance.now() - startedAt) / 1_000
  globalThis.gc?.()
  const bytes = process.memoryUsage().heapUsed - before
  const settled = runs.filter(({ state }) => state === RunState.Running || state === RunState.Parked).length
  await clock.runUntil(migrator.close())
  await clock.runUntil(manager.close())
  return { settled, bytes, moves, seconds }
}

/** Work without work: what is measured is the migrator. */
function idle(id: string): Checkpointable {
  const runtimes: readonly RuntimeKind[] = ['simulated', 'cpu']
  return {
    id,
    needs: { runtimes, memoryBytes: 64 * 2 ** 20 },
    progress: 0,
    finished: new Promise(() => undefined),
    restore: () => Promise.resolve(),
    resume: () => undefined,
    freeze: (): Promise<FrozenState> =>
      Promise.resolve({
        progress: 0,
        parts: [],
        async *read() {},
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
    suspend: () => Promise.resolve(),
    release: () => Promise.resolve(),
  }
}
