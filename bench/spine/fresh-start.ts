import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Figure } from '../figure.ts'

/** `npm start` in a fresh clone of what is committed, with empty caches: install, build, demo. */
export async function measure(): Promise<readonly Figure[]> {
  const scratch = mkdtempSync(join(tmpdir(), 'egpu-fresh-'))
  try {
    const clone = join(scratch, 'clone')
    const repository = fileURLToPath(new URL('../../', import.meta.url))
    const cloned = spawnSync('git', ['clone', '--quiet', repository, clone], { encoding: 'utf8' })
    if (cloned.status !== 0) throw new Error(`git clone failed: ${cloned.stderr}`)
    const begun = performance.now()
    const output = await npmStart(clone, scratch)
    const minutes = (performance.now() - begun) / 60_000
    const result = JSON.parse(output.trim().split('\n').at(-1) ?? '') as { identical: boolean; elapsedMs: number }
    const seconds = result.elapsedMs / 1_000
    return [
      {
        figure: 'fresh clone to a green demo',
        value: minutes,
        unit: 'min',
        bar: '<= 5 min',
        pass: result.identical && minutes <= 5,
      },
      {
        figure: 'of that, the demo',
        value: seconds,
        unit: 's',
        bar: '<= 60 s',
        pass: result.identical && seconds <= 60,
      },
    ]
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

function npmStart(clone: string, scratch: string): Promise<string> {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|PNPM_|TURBO_|NODE_OPTIONS)/.test(name))
  const env = {
    ...Object.fromEntries(inherited),
    npm_config_cache: join(scratch, 'npm'),
    npm_config_store_dir: join(scratch, 'store'),
    XDG_CACHE_HOME: join(scratch, 'cache'),
    XDG_DATA_HOME: join(scratch, 'data'),
  }
  return new Promise((resolve, reject) => {
    const child = spawn('npm', ['start', '--', '--json', '--seed', '1'], {
      cwd: clone,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => void (output += text))
    child.once('error', reject)
    child.once('close', (status) =>
      status === 0 ? resolve(output) : reject(new Error(`npm start ended with ${status}`)),
    )
  })
}
