import { EGpuManager, RuntimeKind, systemClock, ThunderboltSpeed } from '@egpu/core'
import { simDriver, type SimDriver, type SimEnclosure } from '@egpu/driver-sim'
import { cpuTarget, WorkloadMigrator } from '@egpu/migrator'
import { FieldWorkload } from '../demo/workload.ts'
import type { DashboardMachine, Simulator } from './machine.ts'
import type { CableAction, WorkloadView } from './protocol.ts'

/** Small enough to be computed for real beside everything else: a few per cent of one core. */
const size = 96
const gpuStepMs = 5
const flops = (size * size * 40_000) / gpuStepMs

/** A laptop with two enclosures and two endless computations, for visitors who want to pull a cable. */
export async function simulatedMachine(seed: number): Promise<DashboardMachine> {
  const driver = simDriver({
    clock: systemClock,
    seed,
    hostSpeed: ThunderboltSpeed.TB5,
    enclosures: [
      {
        name: 'Core X V2',
        vendorName: 'Razer',
        speed: ThunderboltSpeed.TB4,
        plugged: true,
        gpus: [{ name: 'GPU one', flops, memoryGBps: 500 }],
      },
      {
        name: 'AI Box',
        vendorName: 'Aorus',
        speed: ThunderboltSpeed.TB5,
        plugged: true,
        gpus: [{ name: 'GPU two', flops: flops * 2, memoryGBps: 1_000 }],
      },
    ],
  })
  const manager = await EGpuManager.create({ drivers: [driver] })
  await manager.startMonitoring({ healthIntervalMs: 1_000 })
  const migrator = new WorkloadMigrator(manager, {
    checkpointIntervalMs: 1_000,
    failBackAfterMs: 3_000,
    // Slower than either GPU, or nothing would ever return to one.
    cpu: () => cpuTarget({ flops: flops / 8 }),
  })
  for (const id of ['reaction-diffusion-a', 'reaction-diffusion-b']) {
    const workload = new FieldWorkload({
      id,
      size,
      steps: Number.POSITIVE_INFINITY,
      seed,
      batch: 4,
      runtimes: [RuntimeKind.Simulated, RuntimeKind.Cpu],
      clock: systemClock,
      cpuStepMs: 8 * gpuStepMs,
    })
    // It has no end; what ends it is closing the migrator, and every failure is an event already.
    migrator.run(workload).finished.catch(() => {})
  }
  return {
    name: 'a simulated laptop',
    manager,
    workloads: () => migrator.runs.map(workloadView),
    simulator: simulatorOf(driver),
    [Symbol.asyncDispose]: async () => {
      await migrator.close()
      await manager.close()
    },
  }
}

function workloadView({ workload, state, where, latestCheckpoint }: WorkloadMigrator['runs'][number]): WorkloadView {
  return {
    id: workload.id,
    state,
    where: where === undefined ? undefined : { name: where.name, deviceId: where.deviceId },
    progress: workload.progress,
    checkpoint:
      latestCheckpoint === undefined
        ? undefined
        : { progress: latestCheckpoint.progress, bytes: latestCheckpoint.byteLength },
  }
}

function simulatorOf({ machine }: SimDriver): Simulator {
  const slowed = new Set<string>()
  const actions: Record<CableAction, (box: SimEnclosure) => void> = {
    pull: (box) => {
      slowed.delete(box.id)
      box.yank()
    },
    plug: (box) => box.plug(),
    slow: (box) => {
      box.degradeLink()
      slowed.add(box.id)
    },
    restore: (box) => {
      box.restoreLink()
      slowed.delete(box.id)
    },
    heat: (box) => {
      for (const gpu of box.gpus) gpu.heat(95)
    },
  }
  return {
    cables: () =>
      machine.enclosures.map(({ id, name, port }) => ({
        id,
        name: name ?? id,
        plugged: port !== undefined,
        slowed: slowed.has(id),
      })),
    act: (cableId, action) => actions[action](machine.enclosure(cableId)),
  }
}
