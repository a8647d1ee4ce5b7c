import { onTestFinished } from 'vitest'
import type { EGpuDriver } from '../../src/driver/driver.ts'
import { EGpuManager } from '../../src/manager/manager.ts'
import type { EGpuManagerOptions } from '../../src/manager/options.ts'
import type { EGpuEvent } from '../../src/types/events.ts'
import { ManualClock } from './manual-clock.ts'

/** A manager that watches, everything it tells from then on, and the hands on its clock. */
export async function monitored(
  drivers: readonly EGpuDriver[],
  options: Partial<EGpuManagerOptions> & { readonly healthIntervalMs?: number } = {},
): Promise<{ manager: EGpuManager; clock: ManualClock; told: EGpuEvent[]; readonly types: () => string[] }> {
  const clock = new ManualClock()
  const { healthIntervalMs = 0, ...rest } = options
  const manager = await EGpuManager.create({ drivers, clock, ...rest })
  onTestFinished(() => manager.close())
  await manager.startMonitoring({ healthIntervalMs })
  const told: EGpuEvent[] = []
  const stream = manager.events()
  void (async () => {
    for await (const event of stream) told.push(event)
  })()
  return { manager, clock, told, types: () => told.splice(0).map(({ type }) => type) }
}
