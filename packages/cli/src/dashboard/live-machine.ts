import { hostname } from 'node:os'
import { openMachine, type MachineOptions } from '../machine.ts'
import type { DashboardMachine } from './machine.ts'

/** This machine, or a recorded one, watched. The owner closes it. */
export async function liveMachine(options: MachineOptions, signal: AbortSignal): Promise<DashboardMachine> {
  const manager = await openMachine(options)
  try {
    await manager.startMonitoring({ signal, healthIntervalMs: 1_000 })
  } catch (error) {
    await manager.close()
    throw error
  }
  return {
    name: options.sysfsRoot ?? options.from ?? hostname(),
    manager,
    workloads: () => [],
    [Symbol.asyncDispose]: () => manager.close(),
  }
}
