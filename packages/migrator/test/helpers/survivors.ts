import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

export interface Outcome {
  readonly outcome: unknown
  readonly deaths: readonly string[]
  /** What went wrong on the way, as events told it. */
  readonly told: readonly string[]
}

export interface ParentOptions {
  /** Default: a computation that `test/helpers/survivor-work.ts` says. */
  readonly module?: string
  /** What the work does besides. */
  readonly survivor?: string
  /** How many children are killed. */
  readonly kills?: number
  readonly hangMs?: number
  readonly maxDeaths?: number
  /** Where checkpoints are kept. */
  readonly store?: string
}

/** Programs that use `survive`, compiled once: a loader for TypeScript in each process would take most of the time. */
export class Survivors implements Disposable {
  readonly #home = mkdtempSync(join(tmpdir(), 'egpu-survivors-'))

  static async build(): Promise<Survivors> {
    const survivors = new Survivors()
    const here = fileURLToPath(new URL('.', import.meta.url))
    const source = join(here, '..', '..', 'src', 'node')
    await build({
      entryPoints: {
        parent: join(here, 'survivor-parent.ts'),
        work: join(here, 'survivor-work.ts'),
        'survive-child': join(source, 'survive', 'child.ts'),
      },
      outdir: survivors.#home,
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      conditions: ['@egpu/source'],
      logLevel: 'silent',
    })
    // Threads are found as in the package.
    copyFileSync(join(source, 'chunks', 'worker.js'), join(survivors.#home, 'chunk-worker.js'))
    copyFileSync(join(source, 'survive', 'parent-watch.js'), join(survivors.#home, 'parent-watch.js'))
    const imports = { '#chunk-worker': './chunk-worker.js', '#parent-watch': './parent-watch.js' }
    writeFileSync(join(survivors.#home, 'package.json'), JSON.stringify({ type: 'module', imports }))
    return survivors
  }

  /** A path beside the programs, for modules that a test writes. */
  path(name: string): string {
    return join(this.#home, name)
  }

  start(options: ParentOptions = {}): ChildProcess {
    const { module = pathToFileURL(this.path('work.js')).href, survivor = '', ...rest } = options
    return spawn(process.execPath, [this.path('parent.js'), JSON.stringify({ ...rest, module })], {
      env: { ...process.env, SURVIVOR: survivor },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  /** To the end of the work. */
  async run(options: ParentOptions = {}): Promise<Outcome> {
    const parent = this.start(options)
    const said: Record<'stdout' | 'stderr', string> = { stdout: '', stderr: '' }
    for (const stream of ['stdout', 'stderr'] as const) {
      parent[stream]?.on('data', (bytes: Buffer) => (said[stream] += bytes.toString('utf8')))
    }
    await new Promise((resolve) => parent.on('close', resolve))
    try {
      return JSON.parse(said.stdout) as Outcome
    } catch (cause) {
      throw new Error(`the parent said: ${said.stdout}${said.stderr}`, { cause })
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#home, { recursive: true, force: true })
  }
}
