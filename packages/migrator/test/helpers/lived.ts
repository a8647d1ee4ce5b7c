import type { MigrationPolicy } from '@egpu/migrator'
import { bench } from './bench.ts'
import { SteadyWork } from './steady-work.ts'
import { trace } from './traces.ts'
import type { Trace } from './traces.ts'

/** Only what is saved on a schedule. */
export const periodicOnly: MigrationPolicy = { name: 'periodic-only', onWarning: () => 'wait' }

/**
 * Lives through a trace: its readings are those of device A, which is pulled when the trace says that it failed, while B
 * is well. Returns how much of the time was not work: everything done twice, and everything it stood still for.
 */
export async function lostWork(lived: Trace, strategy: MigrationPolicy): Promise<number> {
  await using machine = await bench({
    boxes: 2,
    strategy,
    healthIntervalMs: 5_000,
    checkpointIntervalMs: undefined,
    migrationTimeoutMs: 30_000,
    failBackAfterMs: 60_000,
  })
  const { clock, driver, migrator, boxes } = machine
  const { health } = driver
  if (health === undefined) throw new Error('the simulator reads health')
  const well = trace('quiet', 1, 3)
  health.sample = async (key) => {
    const { samples } = key.endsWith('A') ? lived : well
    const now = clock.now()
    // By bisection: the newest that was there by now.
    let low = 0
    let high = samples.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((samples[middle]?.atMs ?? 0) <= now) low = middle + 1
      else high = middle
    }
    return samples[low - 1] ?? { atMs: now }
  }
  const work = new SteadyWork({ clock })
  const run = migrator.run(work, { startOn: 'sim/sim:gpu-A' })
  await machine.until(run.started)
  const startedAt = clock.now()
  await clock.advance(lived.lengthMs - clock.now())
  if (lived.failedAtMs !== undefined) boxes[0]?.yank()
  await clock.advance(60_000)
  return clock.now() - startedAt - work.progress
}
