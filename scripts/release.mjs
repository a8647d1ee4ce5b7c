/**
 * The steps of a release, as .github/workflows/release.yml calls them:
 *   prepare  installs, builds, checks every package, and writes what a user would install to .artifacts/sbom
 *   version  turns changesets into versions and changelogs
 *   publish  publishes every package whose version is new
 * With --dry-run a step says what it would run, and runs nothing.
 */
import { mkdtempSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { installDependencies, pnpm, root, run, tool } from './pnpm.mjs'

/** What each step does, one after the other until one fails: a tool of ours, pnpm itself, or a function here. */
const steps = {
  prepare: [['turbo', 'run', 'build', 'package-check', '--output-logs=errors-only', '--no-update-notifier'], writeSbom],
  version: [
    ['changeset', 'version'],
    ['pnpm', 'install', '--lockfile-only'],
  ],
  publish: [['changeset', 'publish']],
}

function perform(action) {
  if (typeof action === 'function') return action()
  const [name, ...args] = action
  return name === 'pnpm' ? pnpm(args) : tool(name, args)
}

/** What each package brings along, as CycloneDX, read from an installed tree: ranges say less than what was taken. */
function writeSbom() {
  const out = join(root, '.artifacts/sbom')
  mkdirSync(out, { recursive: true })
  const scratch = mkdtempSync(join(tmpdir(), 'egpu-sbom-'))
  try {
    for (const name of readdirSync(join(root, 'packages'))) {
      const status = pnpm(['pack', '--pack-destination', scratch, '--silent'], {
        cwd: join(root, 'packages', name),
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      if (status !== 0) return status
    }
    const tarballs = readdirSync(scratch).filter((name) => name.endsWith('.tgz'))
    writeFileSync(
      join(scratch, 'package.json'),
      JSON.stringify({ name: 'egpu-installed', version: '0.0.0', private: true }),
    )
    const installed = run(
      'npm',
      ['install', '--no-audit', '--no-fund', '--silent', ...tarballs.map((name) => `./${name}`)],
      {
        cwd: scratch,
      },
    )
    if (installed !== 0) return installed
    const { status, stdout } = spawnSync('npm', ['sbom', '--sbom-format', 'cyclonedx'], {
      cwd: scratch,
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    })
    if (status === 0) writeFileSync(join(out, 'egpu.cdx.json'), stdout)
    return status ?? 1
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

const [name = '', ...options] = process.argv.slice(2)
const step = Object.hasOwn(steps, name) ? steps[name] : undefined
if (step === undefined || options.some((option) => option !== '--dry-run')) {
  console.error(`say which: ${Object.keys(steps).join(', ')}; and --dry-run to only see what it would do`)
  process.exitCode = 2
} else if (options.length > 0) {
  for (const action of step) console.log(typeof action === 'function' ? action.name : action.join(' '))
} else {
  installDependencies()
  process.exitCode = step.reduce((status, action) => status || perform(action), 0)
}
