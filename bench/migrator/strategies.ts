import { MigrationStrategy } from '@egpu/migrator'
import type { MigrationPolicy } from '@egpu/migrator'
import { lostWork, periodicOnly } from '../../packages/migrator/test/helpers/lived.ts'
import { precursorFamilies, trace } from '../../packages/migrator/test/helpers/traces.ts'
import type { Figure } from '../figure.ts'

/** Held out, like those of the predictor. */
const firstSeed = 8_000_000
const perFamily = 3
const families = [...precursorFamilies, 'yank', 'bursty-load', 'sleepy'] as const

/** Lost work, live: the manager reads the traces, the migrator acts on them, and the device goes when the trace says. */
export async function measure(): Promise<Figure[]> {
  const lives = families.flatMap((family) =>
    Array.from({ length: perFamily }, (_, i) => trace(family, firstSeed + i, 2)),
  )
  const lost = async (strategy: MigrationPolicy): Promise<number> => {
    let sum = 0
    for (const lived of lives) sum += (await lostWork(lived, strategy)) / 1_000
    return sum
  }
  const periodic = await lost(periodicOnly)
  const lazy = await lost(MigrationStrategy.Lazy)
  const preemptive = await lost(MigrationStrategy.Preemptive)
  // Whoever knows the moment saves just before it, and does not stand still otherwise; what is left is the way back.
  const failures = lives.filter(({ failedAtMs }) => failedAtMs !== undefined).length
  // Nothing saved: all that was done until the loss is done again.
  const never = lives.reduce((sum, { failedAtMs = 0 }) => sum + failedAtMs, 0) / 1_000
  const told = `over ${lives.length} lives of up to 2 hours, ${failures} of which end in a loss`
  return [
    {
      figure: 'lost work, Preemptive against Lazy',
      value: preemptive,
      unit: 's',
      against: `${lazy.toFixed(1)} s with Lazy ${told}`,
      ratio: preemptive / lazy,
      bar: '< 1 x',
      pass: preemptive < lazy,
    },
    {
      figure: 'lost work, Preemptive against checkpoints on a schedule alone',
      value: preemptive,
      unit: 's',
      against: `${periodic.toFixed(1)} s on a schedule alone`,
      ratio: preemptive / periodic,
      bar: '< 1 x',
      pass: preemptive < periodic,
    },
    {
      figure: 'lost work, Preemptive against no checkpoints',
      value: preemptive,
      unit: 's',
      against: `${never.toFixed(0)} s when all is done again`,
      ratio: preemptive / never,
    },
    {
      figure: 'lost work, Preemptive against an oracle',
      value: preemptive,
      unit: 's',
      against: `${(failures * oracleSeconds).toFixed(1)} s when each loss is known a moment before`,
      ratio: preemptive / (failures * oracleSeconds),
    },
  ]
}

/** One pause and one restore: what a move costs that comes just in time. */
const oracleSeconds = 0.05 + 0.2
