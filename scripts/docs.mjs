/**
 * `pnpm run docs`: the site in site/, API reference and guides together, from docstrings and docs/. Fails when an export has
 * no docstring, or a link leads nowhere.
 */
import { readdirSync, readFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { root, run, tool } from './pnpm.mjs'

/** Source files behind every entry that a package exports. */
const entryPoints = readdirSync(join(root, 'packages')).flatMap((name) => {
  const manifest = join(root, 'packages', name, 'package.json')
  if (!existsSync(manifest)) return []
  return Object.values(JSON.parse(readFileSync(manifest, 'utf8')).exports ?? {}).flatMap((target) =>
    typeof target === 'string' ? [] : [join(root, 'packages', name, target['@egpu/source'])],
  )
})

const wrote = run(process.execPath, ['--conditions=@egpu/source', '--import=tsx', join(root, 'scripts/made-pages.ts')])
process.exitCode =
  wrote ||
  tool(
    'typedoc',
    entryPoints.flatMap((file) => ['--entryPoints', file]),
  )
