/**
 * `pnpm chaos [--part spine|kills|hostile|schedules|processes] [--seeds N] [--first N]`: breaks things at every point and
 * at random and compares each result with an undisturbed run's. All but `processes` run in virtual time and take the same
 * path for a seed each time. Prints a JSON line for each part and ends with exit 1 if anything differed.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildSync } from 'esbuild'
import { root, run } from './pnpm.mjs'

const chaos = join(root, 'test', 'chaos')
const migrator = join(root, 'packages', 'migrator')
const home = mkdtempSync(join(tmpdir(), 'egpu-chaos-built-'))
try {
  // Compiled once, since hundreds of processes are started: a loader for TypeScript in each would take most of the time.
  buildSync({
    entryPoints: {
      run: join(chaos, 'run.ts'),
      life: join(chaos, 'processes', 'life.ts'),
      'short-work': join(chaos, 'processes', 'short-work.ts'),
      'survive-child': join(migrator, 'src', 'node', 'survive', 'child.ts'),
    },
    outdir: home,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@egpu/source'],
    sourcemap: true,
  })
  // Threads are found as in the package.
  copyFileSync(join(migrator, 'src', 'node', 'chunks', 'worker.js'), join(home, 'chunk-worker.js'))
  copyFileSync(join(migrator, 'src', 'node', 'survive', 'parent-watch.js'), join(home, 'parent-watch.js'))
  writeFileSync(
    join(home, 'package.json'),
    JSON.stringify({
      type: 'module',
      imports: { '#chunk-worker': './chunk-worker.js', '#parent-watch': './parent-watch.js' },
    }),
  )
  process.exitCode = run(process.execPath, [join(home, 'run.js'), ...process.argv.slice(2)])
} finally {
  rmSync(home, { recursive: true, force: true })
}
