/**
 * `pnpm chaos [--part spine|kills|hostile|schedules|processes] [--seeds N] [--first N]`: breaks things at every point and
 * at random and compares each result with an undisturbed run's. All but `processes` run in virtual time and take the same
 * path for a seed each time. Prints a JSON line for each part and ends with exit 1 if anything differed.
 */
import { join } from 'node:path'
import { root, run } from './pnpm.mjs'

process.exitCode = run(process.execPath, [
  '--conditions=@egpu/source',
  '--import=tsx',
  join(root, 'test', 'chaos', 'run.ts'),
  ...process.argv.slice(2),
])
