/**
 * `pnpm chaos --seeds 1000`: the demo's scenario on the simulator, in virtual time, once per seed. Each run's result is
 * compared with an undisturbed one; the first difference or failure ends it with exit 1. Prints one JSON line.
 */
import { join } from 'node:path'
import { root, run } from './pnpm.mjs'

process.exitCode = run(process.execPath, [
  '--conditions=@egpu/source',
  '--import=tsx',
  join(root, 'test', 'chaos', 'run.ts'),
  ...process.argv.slice(2),
])
