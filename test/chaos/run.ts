import { parseArgs } from 'node:util'
import { chaos as kills } from '../../packages/migrator/test/helpers/chaos.ts'
import { schedules } from '../../packages/migrator/test/helpers/schedules.ts'
import type { SeedOptions } from '../../packages/migrator/test/helpers/seeds.ts'
import { hostile } from './hostile.ts'
import { processes } from './processes/processes.ts'
import { spine } from './spine.ts'

const usage =
  'usage: pnpm chaos [--part spine|kills|hostile|schedules|processes] [--seeds <number from 1 up>] [--first <seed>]'

interface Part {
  /** How often, where nobody says. */
  readonly seeds: number
  run(options: SeedOptions): Promise<{ readonly failures: readonly unknown[] }>
}

const parts: Readonly<Record<string, Part>> = {
  // The demo: unplugged, on the CPU, plugged in again, back.
  spine: { seeds: 1_000, run: spine },
  // One thing broken at one point of a run; more seeds than points for each kind of thing.
  kills: { seeds: 10_000, run: kills },
  // Many things broken at any time, with several boxes and workloads.
  hostile: { seeds: 1_000, run: hostile },
  // Workloads that share devices, a store and a journal, moved, closed and crashed at any time.
  schedules: { seeds: 1_000, run: schedules },
  // Processes that are killed, in real time.
  processes: { seeds: 200, run: processes },
}

const { values } = parseArgs({
  options: { part: { type: 'string' }, seeds: { type: 'string' }, first: { type: 'string', default: '1' } },
})
const first = Number(values.first)
const asked = values.seeds === undefined ? undefined : Number(values.seeds)
if ((asked !== undefined && !(Number.isSafeInteger(asked) && asked >= 1)) || !Number.isSafeInteger(first)) {
  throw new TypeError(usage)
}
const chosen = values.part === undefined ? Object.keys(parts) : [values.part]
for (const name of chosen) {
  const part = parts[name]
  if (part === undefined) throw new TypeError(usage)
  const seeds = asked ?? part.seeds
  let told = 0
  const onProgress = (done: number): void => {
    if (done - told < Math.min(100, seeds / 10)) return
    told = done
    console.error(`${name}: ${done} of ${seeds}`)
  }
  const startedAt = performance.now()
  const outcome = await part.run({ first, seeds, onProgress })
  console.log(JSON.stringify({ part: name, ...outcome, seconds: Math.round(performance.now() - startedAt) / 1_000 }))
  if (outcome.failures.length > 0) process.exitCode = 1
}
