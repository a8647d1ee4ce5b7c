/**
 * `npm test`: set-up, then every check from the quickest to the slowest. Prints one line per stage and goes on after a
 * failed stage, so one run shows everything; its last lines name each failed test. `--only <stage>` (repeatable) runs a
 * part; `--list` names the stages.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { installSystemPackages } from './system-packages.mjs'
import { installDependencies, root, run, tool } from './pnpm.mjs'

const env = { ...process.env, TURBO_TELEMETRY_DISABLED: '1' }
const turbo = (task) => () => tool('turbo', ['run', task, '--output-logs=errors-only', '--no-update-notifier'], { env })

const stages = {
  format: () => tool('oxfmt', ['--check', '.']),
  lint: () => tool('oxlint', ['--type-aware', '--deny-warnings']),
  types: () => turbo('typecheck')() || tool('tsc', ['-p', '.']),
  unused: () => tool('knip', []),
  docs: () => run(process.execPath, [join(root, 'scripts/docs.mjs')]),
  unit: () => tool('vitest', ['run']),
  packages: turbo('package-check'),
  system: () => turbo('build')() || tool('vitest', ['run', '--config', 'vitest.system.config.ts']),
}

const args = process.argv.slice(2)
if (args.includes('--list')) {
  console.log(Object.keys(stages).join('\n'))
  process.exit(0)
}
const only = args.flatMap((arg, index) => (arg === '--only' ? [args[index + 1]] : []))
const unknown = only.filter((name) => !(name in stages))
if (unknown.length > 0) {
  console.error(`no stage ${unknown.join(', ')}; there are: ${Object.keys(stages).join(', ')}`)
  process.exit(2)
}

installDependencies()
const lacking = installSystemPackages()
if (lacking !== undefined) console.log(`system packages: ${lacking}`)

// failure-reporter.mjs writes here what failed, to be said again at the very end.
const failures = join(mkdtempSync(join(tmpdir(), 'egpu-test-')), 'failures.txt')
process.env.EGPU_FAILURES = failures

const failed = []
for (const [name, stage] of Object.entries(stages)) {
  if (only.length > 0 && !only.includes(name)) continue
  const begun = performance.now()
  console.log(`\n── ${name}`)
  const status = stage()
  console.log(
    `── ${name}: ${status === 0 ? 'passed' : 'FAILED'} in ${((performance.now() - begun) / 1000).toFixed(1)} s`,
  )
  if (status !== 0) failed.push(name)
}
if (existsSync(failures)) console.log(`\n${readFileSync(failures, 'utf8')}`)
rmSync(dirname(failures), { recursive: true })
console.log(failed.length === 0 ? '\nall stages passed' : `\nfailed: ${failed.join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1
