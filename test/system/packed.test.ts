import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { node24 } from '../../scripts/node-24.mjs'
import { pnpm, tool } from '../../scripts/pnpm.mjs'
import { rooms } from '../workspace.ts'

const packages = rooms('packages').filter(({ manifest }) => manifest.private !== true)
const project = mkdtempSync(join(tmpdir(), 'egpu-packed-'))

/** What a user gets: tarballs of every package, installed by npm into an empty project. */
beforeAll(() => {
  expect(tool('turbo', ['run', 'build', '--output-logs=errors-only', '--no-update-notifier'])).toBe(0)
  for (const { path } of packages) {
    expect(pnpm(['pack', '--pack-destination', project, '--silent'], { cwd: path, stdio: 'ignore' })).toBe(0)
  }
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }))
  const tarballs = readdirSync(project).filter((name) => name.endsWith('.tgz'))
  expect(tarballs).toHaveLength(packages.length)
  execFileSync('npm', ['install', '--no-audit', '--no-fund', ...tarballs.map((name) => `./${name}`)], {
    cwd: project,
    stdio: 'pipe',
  })
})

afterAll(() => rmSync(project, { recursive: true, force: true }))

const node = (...args: string[]): string => execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8' })

const names = packages.map(({ manifest }) => manifest.name)
const runtimes = [process.execPath, node24()]

/** Packages whose root runs in a browser, with what they may weigh there: bundled, minified and compressed, in kB. */
const forBrowsers = { '@egpu/core': 38, '@egpu/driver-sim': 26, '@egpu/driver-wgpu': 50, '@egpu/migrator': 45 }

/** What a tarball may weigh, in kB: growth is decided here, not noticed later. */
const budget: Readonly<Record<string, number>> = {
  '@egpu/cli': 260,
  '@egpu/core': 350,
  '@egpu/driver-cuda': 180,
  '@egpu/driver-linux': 340,
  '@egpu/driver-macos': 170,
  '@egpu/driver-sim': 100,
  '@egpu/driver-wgpu': 310,
  '@egpu/mesh': 420,
  '@egpu/migrator': 425,
}

describe('packed and installed', () => {
  it.each(names.flatMap((name) => runtimes.map((runtime) => [name, runtime] as const)))(
    '%s can be imported by %s, and nothing happens',
    (name, runtime) => {
      const script = `const module = await import('${name}')
        const native = process.report.getReport().sharedObjects.filter((file) => file.endsWith('.node'))
        console.log(JSON.stringify({ exports: Object.keys(module).length > 0, native }))`
      const answer = execFileSync(runtime, ['--input-type=module', '-e', script], { cwd: project, encoding: 'utf8' })
      expect(JSON.parse(answer)).toEqual({ exports: true, native: [] })
    },
  )

  it.each(Object.entries(forBrowsers))('%s goes into a browser bundle of at most %d kB', async (name, most) => {
    const { outputFiles } = await build({
      stdin: { contents: `export * from '${name}'`, resolveDir: project },
      bundle: true,
      platform: 'browser',
      format: 'esm',
      minify: true,
      write: false,
      // The package `webgpu` is for Node, and asked for only where there is no `navigator.gpu`.
      external: ['webgpu'],
      logLevel: 'silent',
    })
    const bytes = outputFiles[0]?.contents ?? new Uint8Array()
    expect(bytes.byteLength).toBeGreaterThan(1_000)
    expect(gzipSync(bytes).byteLength / 1_000).toBeLessThan(most)
  })

  it.each(runtimes)('survive() does its work in a child of the installed package with %s', (runtime) => {
    writeFileSync(
      join(project, 'work.js'),
      `import { simDriver } from '@egpu/driver-sim'
      const work = {
        id: 'count', needs: { runtimes: ['cpu', 'simulated'] }, progress: 0,
        async restore(target, state) { work.progress = state?.progress ?? 0 },
        resume() { work.timer ??= setInterval(() => (work.progress += 1) === 100 && work.done(), 2) },
        async freeze() { return { progress: work.progress, parts: [], async *read() {}, async [Symbol.asyncDispose]() {} } },
        async suspend() { work.timer = clearInterval(work.timer) },
        release: () => work.suspend(),
      }
      work.finished = new Promise((resolve) => (work.done = resolve))
      export default () => ({ drivers: [simDriver()], workload: work, config: { checkpointIntervalMs: 20 }, result: () => work.progress })`,
    )
    writeFileSync(
      join(project, 'parent.js'),
      `import { survive } from '@egpu/migrator/node'
      let killed = 0
      const run = survive(new URL('./work.js', import.meta.url), {
        onEvent: ({ type }) => type === 'checkpoint-saved' && killed++ === 0 && process.kill(run.pid, 'SIGKILL'),
      })
      console.log(await run.finished)`,
    )
    expect(execFileSync(runtime, ['parent.js'], { cwd: project, encoding: 'utf8' })).toBe('100\n')
  })

  it.each(names)('%s keeps to its size budget', (name) => {
    const file = readdirSync(project).find(
      (each) => each.startsWith(`${name.replace('@', '').replace('/', '-')}-`) && each.endsWith('.tgz'),
    )
    expect(statSync(join(project, file ?? '')).size / 1_000).toBeLessThan(budget[name] ?? 0)
  })

  it.each(names)('%s brings its licence', (name) => {
    const manifest = JSON.parse(readFileSync(join(project, 'node_modules', name, 'package.json'), 'utf8')) as {
      license: string
    }
    expect(manifest.license).toBe('MIT')
    expect(readdirSync(join(project, 'node_modules', name))).toContain('LICENSE')
  })

  it('there is one copy of core', () => {
    const copies = node('-p', `require('node:child_process').execSync('npm ls @egpu/core --json --all').toString()`)
    const versions = new Set([...copies.matchAll(/"resolved": "([^"]*egpu-core[^"]*)"/g)].map(([, file]) => file))
    expect(versions.size).toBeLessThanOrEqual(1)
    expect(readdirSync(join(project, 'node_modules', '@egpu'))).toContain('core')
  })

  it('the egpu command runs', () => {
    const bin = join(project, 'node_modules', '.bin', 'egpu')
    const listing = JSON.parse(execFileSync(bin, ['list', '--json'], { cwd: project, encoding: 'utf8' })) as object
    expect(Object.keys(listing)).toEqual(['machine', 'devices', 'enclosures', 'findings'])
  })
})
