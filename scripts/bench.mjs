/**
 * `pnpm bench <name>` measures everything in bench/<name> and prints one JSON line per figure:
 * `{ bench, figure, value, unit, against, ratio, bar, pass }`. Without a name it lists the benches. It exits 0 whenever
 * it could measure: a missed bar is a figure, not an error.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from './pnpm.mjs'

const home = join(root, 'bench')
const benches = readdirSync(home, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'results')
  .map((entry) => entry.name)

const [name, ...figures] = process.argv.slice(2)
if (name === undefined) {
  console.log(benches.join('\n'))
} else if (!existsSync(join(home, name))) {
  console.error(`no bench ${name}; there are: ${benches.join(', ')}`)
  process.exitCode = 2
} else {
  process.exitCode = run(process.execPath, [
    '--expose-gc',
    '--conditions=@egpu/source',
    '--import=tsx',
    join(home, 'run.ts'),
    name,
    ...figures,
  ])
}
