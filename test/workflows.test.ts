import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { root, rooms, type Manifest } from './workspace.ts'

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly 'runs-on': string
  readonly 'timeout-minutes'?: number
  readonly permissions?: unknown
  readonly steps: readonly Step[]
}

interface Workflow {
  readonly name: string
  readonly on: unknown
  readonly permissions?: unknown
  readonly jobs: Readonly<Record<string, Job>>
}

const home = join(root, '.github/workflows')
const workflows = readdirSync(home).map((file) => {
  const text = readFileSync(join(home, file), 'utf8')
  return { file, text, workflow: parse(text, { strict: true, uniqueKeys: true }) as Workflow }
})
const jobs = workflows.flatMap(({ file, workflow }) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ id: `${file} ${name}`, job })),
)

/** What a job runs in the repository: its own commands, and those it hands to an action. */
const commands = jobs.flatMap(({ id, job }) =>
  job.steps
    .flatMap(({ run, with: given = {} }) => [run, given['version'], given['publish']])
    .filter((command) => typeof command === 'string')
    .flatMap((command) => command.split('\n').filter((line) => line.trim() !== ''))
    .map((command) => [id, command] as const),
)

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest & {
  readonly scripts: Readonly<Record<string, string>>
}

const release = (...args: string[]): ReturnType<typeof spawnSync> =>
  spawnSync(process.execPath, [join(root, 'scripts/release.mjs'), ...args], { encoding: 'utf8' })

/** Why a command of a workflow would fail before it did anything. */
function whatIsMissing(command: string): string | undefined {
  const [program = '', first = '', ...args] = command.split(' ')
  if (program === 'npm') {
    const script = first === 'run' ? (args[0] ?? '') : first
    return script in manifest.scripts ? undefined : `package.json has no script ${script}`
  }
  const file = join(root, program === 'node' ? first : program)
  if (!existsSync(file)) return `there is no ${file}`
  if (first === 'scripts/release.mjs') return release(...args, '--dry-run').status === 0 ? undefined : 'no such step'
  return program === 'node' || (statSync(file).mode & 0o111) !== 0 ? undefined : `${file} cannot be executed`
}

describe('workflows', () => {
  it.each(jobs)('$id runs on a named system, for a limited time, with the rights it names', ({ id, job }) => {
    expect(job['runs-on']).toMatch(/^ubuntu-\d+\.\d+$/)
    expect(job['timeout-minutes']).toBeGreaterThan(0)
    const workflow = workflows.find(({ file }) => id.startsWith(file))?.workflow
    expect(job.permissions ?? workflow?.permissions, 'no permissions are named').toBeDefined()
  })

  it('every action is pinned to a commit, and says which version that is', () => {
    const used = workflows.flatMap(({ text }) => [...text.matchAll(/uses: (.*)/g)].map(([, uses]) => uses as string))
    expect(used.length).toBe(jobs.flatMap(({ job }) => job.steps).filter(({ uses }) => uses !== undefined).length)
    expect(used.filter((uses) => !/^[\w-]+\/[\w-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/.test(uses))).toEqual([])
    // One version of each, or nobody knows which was tried.
    const names = [...new Set(used)].map((uses) => uses.split('@')[0])
    expect(new Set(names).size).toBe(names.length)
  })

  it.each(commands)('%s: there is what "%s" runs', (_id, command) => {
    expect(whatIsMissing(command)).toBeUndefined()
  })

  it('what CI runs is there', () => {
    const script = readFileSync(join(root, '.ci/run'), 'utf8')
    for (const [, file] of script.matchAll(/\b(scripts\/\S+\.mjs|node_modules\/\S+\.mjs)\b/g))
      expect(existsSync(join(root, file as string))).toBe(true)
    expect(script).toContain('npm test')
    expect(manifest.scripts).toHaveProperty('test')
  })

  it('each script of the workspace names a file or a tool that is there', () => {
    const tools = readdirSync(join(root, 'node_modules/.bin'))
    const missing = Object.entries(manifest.scripts).filter(([, command]) => {
      const [program = '', file = ''] = command.split(' ')
      if (program === 'node') return !existsSync(join(root, file)) && !file.includes('/dist/')
      return program !== 'pnpm' && !tools.includes(program)
    })
    expect(missing).toEqual([])
  })
})

describe('a release', () => {
  it.each(['prepare', 'version', 'publish'])('%s can be looked at without being done', (step) => {
    const { status, stdout } = release(step, '--dry-run')
    expect(status).toBe(0)
    const turbo = JSON.parse(readFileSync(join(root, 'turbo.json'), 'utf8')) as { readonly tasks: object }
    const tools = readdirSync(join(root, 'node_modules/.bin'))
    for (const line of String(stdout).trim().split('\n')) {
      const [tool = '', ...args] = line.split(' ')
      if (tool === 'writeSbom' || tool === 'pnpm') continue
      expect(tools).toContain(tool)
      const tasks = tool === 'turbo' ? args.slice(1).filter((arg) => !arg.startsWith('-')) : []
      for (const task of tasks) expect(turbo.tasks).toHaveProperty(task)
    }
  })

  it.each([[], ['everything'], ['version', '--dry'], ['toString']])('refuses to do %j', (...args) => {
    expect(release(...args)).toMatchObject({ status: 2, stderr: expect.stringContaining('prepare, version, publish') })
  })

  it('makes of the changesets one version for each package, a major of none, and leaves peers satisfied', () => {
    const copy = mkdtempSync(join(tmpdir(), 'egpu-release-'))
    onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
    const packages = rooms('packages')
    const files = ['package.json', 'pnpm-workspace.yaml', 'pnpm-lock.yaml', '.changeset']
    for (const file of files) cpSync(join(root, file), join(copy, file), { recursive: true })
    for (const { path } of packages)
      cpSync(join(path, 'package.json'), join(copy, path.slice(root.length), 'package.json'))
    execFileSync('git', ['init', '-q', '-b', 'main'], { cwd: copy })
    const changesets = join(root, 'node_modules/@changesets/cli/bin.js')
    execFileSync(process.execPath, [changesets, 'version'], { cwd: copy, stdio: 'pipe' })
    for (const { path, manifest: before } of packages) {
      const there = join(copy, path.slice(root.length))
      const after = JSON.parse(readFileSync(join(there, 'package.json'), 'utf8')) as { readonly version: string }
      const [old, fresh] = [(before as unknown as { version: string }).version, after.version]
      expect(fresh.split('.')[0], `${before.name} ${old} -> ${fresh}`).toBe(old.split('.')[0])
      expect(existsSync(join(there, 'CHANGELOG.md'))).toBe(fresh !== old)
    }
    expect(readdirSync(join(copy, '.changeset')).filter((name) => name.endsWith('.md'))).toEqual([])
  })
})
