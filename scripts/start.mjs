/** `npm start`: from a fresh clone to the main job. Everything after `--` goes to `egpu demo`. */
import { join } from 'node:path'
import { installDependencies, root, run, tool } from './pnpm.mjs'

installDependencies()
const built = tool(
  'turbo',
  ['run', 'build', '--filter=@egpu/cli...', '--output-logs=errors-only', '--no-update-notifier'],
  {
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1' },
  },
)
process.exitCode =
  built === 0
    ? run(process.execPath, [join(root, 'packages/cli/dist/bin.js'), 'demo', ...process.argv.slice(2)])
    : built
