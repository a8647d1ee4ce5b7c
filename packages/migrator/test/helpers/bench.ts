import { EGpuManager } from '@egpu/core'
import type { EGpuEvent } from '@egpu/core'
import { simDriver, VirtualClock } from '@egpu/driver-sim'
import type { SimDriver, SimEnclosure, SimMachineDescription } from '@egpu/driver-sim'
import { WorkloadMigrator } from '@egpu/migrator'
import type { MigrationConfig } from '@egpu/migrator'

/** A simulated machine in virtual time, a manager that watches it, and a migrator. */
export interface Bench extends AsyncDisposable {
  readonly clock: VirtualClock
  readonly driver: SimDriver
  readonly manager: EGpuManager
  readonly migrator: WorkloadMigrator
  readonly events: EGpuEvent[]
  /** Boxes A, B, …, each with one GPU of the same name. */
  readonly boxes: readonly SimEnclosure[]
  /** What happened to the work, one line per event. */
  story(): readonly string[]
  /** Names of the steps of all moves so far. */
  steps(): readonly string[]
  /** Moves time on until `work` settles. */
  until<T>(work: Promise<T>): Promise<T>
}

export interface BenchOptions extends MigrationConfig {
  readonly boxes?: number
  readonly machine?: SimMachineDescription
  readonly healthIntervalMs?: number
}

export async function bench({
  boxes = 1,
  machine = {},
  healthIntervalMs = 0,
  ...config
}: BenchOptions = {}): Promise<Bench> {
  const clock = new VirtualClock()
  const names = Array.from({ length: boxes }, (_, i) => String.fromCodePoint(65 + i))
  const driver = simDriver({
    clock,
    ...machine,
    enclosures: names.map((name) => ({
      id: `box-${name}`,
      name: `box ${name}`,
      plugged: true,
      gpus: [{ id: `gpu-${name}`, name }],
    })),
  })
  const manager = await clock.runUntil(EGpuManager.create({ drivers: [driver], clock }))
  const events: EGpuEvent[] = []
  for (const type of [
    'migration-started',
    'migration-step',
    'migration-completed',
    'migration-failed',
    'checkpoint-saved',
    'checkpoint-failed',
    'lost',
  ] as const) {
    manager.on(type, (event) => void events.push(event))
  }
  await clock.runUntil(manager.startMonitoring({ healthIntervalMs }))
  const migrator = new WorkloadMigrator(manager, { checkpointIntervalMs: 100, migrationTimeoutMs: 1_000, ...config })
  return {
    clock,
    driver,
    manager,
    migrator,
    events,
    boxes: driver.machine.enclosures,
    story: () => events.flatMap(tell),
    steps: () => events.flatMap((event) => (event.type === 'migration-step' ? [event.step] : [])),
    until: (work) => clock.runUntil(work),
    async [Symbol.asyncDispose]() {
      await clock.runUntil(migrator.close())
      await clock.runUntil(manager.close())
    },
  }
}

function tell(event: EGpuEvent): string[] {
  switch (event.type) {
    case 'migration-started':
    case 'migration-completed': {
      const { workloadId, from, to, reason } = event.migration
      return [
        `${workloadId} ${event.type.slice(10)} ${from?.name ?? 'nowhere'} -> ${to?.name ?? 'nowhere'} (${reason})`,
      ]
    }
    case 'migration-failed': {
      const { workloadId, from, to } = event.migration
      return [`${workloadId} failed ${from?.name ?? 'nowhere'} -> ${to?.name ?? 'nowhere'}: ${event.error.code}`]
    }
    case 'checkpoint-failed':
      return [`${event.workloadId} checkpoint failed: ${event.error.code}`]
    default:
      return []
  }
}
