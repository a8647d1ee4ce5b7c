import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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

describe('packed and installed', () => {
  it.each(packages.map(({ manifest }) => manifest.name))('%s can be imported, and nothing happens', (name) => {
    const script = `const module = await import('${name}')
      const native = process.report.getReport().sharedObjects.filter((file) => file.endsWith('.node'))
      console.log(JSON.stringify({ exports: Object.keys(module).length > 0, native }))`
    expect(JSON.parse(node('--input-type=module', '-e', script))).toEqual({ exports: true, native: [] })
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
