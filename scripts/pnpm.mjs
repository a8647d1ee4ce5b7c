/**
 * Brings the pnpm version named in package.json, so that a machine with only Node and npm can build this repository.
 * It is kept in .tools/, nothing global is touched.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Runs a command with its output shown; returns its exit status.
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} options
 */
export function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (error !== undefined) throw error
  return status ?? 1
}

/** Where this repository's own pnpm is; installs it first when it is missing. */
function pnpmHome() {
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const [, version] = packageManager.split('@')
  const home = join(root, '.tools', `pnpm-${version}`)
  if (!existsSync(join(home, 'node_modules', 'pnpm'))) {
    console.log(`bringing pnpm ${version} into .tools/`)
    const npmArgs = ['install', '--prefix', home, '--no-save', '--no-audit', '--no-fund', '--silent', `pnpm@${version}`]
    const status = run('npm', npmArgs, { shell: process.platform === 'win32' })
    if (status !== 0)
      throw new Error(`npm could not install pnpm@${version} (exit ${status}); is the npm registry reachable?`)
  }
  return join(home, 'node_modules')
}

/**
 * Runs pnpm with the Node that runs this script.
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} options
 */
export function pnpm(args, { env = process.env, ...options } = {}) {
  const home = pnpmHome()
  // turbo looks for a `pnpm` on the PATH.
  const path = [join(home, '.bin'), env.PATH].join(delimiter)
  return run(process.execPath, [join(home, 'pnpm', 'bin', 'pnpm.cjs'), ...args], {
    ...options,
    env: { ...env, PATH: path },
  })
}

/** Installs what the lockfile says; quick when nothing changed. */
export function installDependencies() {
  const status = pnpm(['install', '--frozen-lockfile', '--prefer-offline', '--reporter=append-only', '--loglevel=warn'])
  if (status !== 0) throw new Error(`pnpm install failed (exit ${status})`)
}

/**
 * A binary of the workspace's own development tools.
 * @param {string} name
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} options
 */
export function tool(name, args, options = {}) {
  return pnpm(['exec', name, ...args], options)
}
