import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { performancePage } from './performance-tables.ts'
import { platformSupport } from './platform-support.ts'
import { root, rooms, sources } from './workspace.ts'

/** Every page of the repository that somebody reads. */
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
  ...[...rooms('packages'), ...rooms('examples')].map(({ path }) => relative(root, join(path, 'README.md'))),
]

/** Links to places in the repository, without those in code. */
function localLinks(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8').replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, '')
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target as string)
    .filter((target) => !/^(?:[a-z]+:|#)/.test(target))
}

const findingCodes = new Set(
  rooms('packages').flatMap(({ path }) =>
    sources(join(path, 'src')).flatMap((file) => {
      if (!/findings?|departures|apply-look|overrides-file|certainty/.test(file) && !file.includes('/detect/'))
        return []
      return [...readFileSync(file, 'utf8').matchAll(/\bcode: '([a-z][a-z-]+)'/g)].map(([, code]) => code as string)
    }),
  ),
)

describe('pages', () => {
  it.each(pages)('%s links to nothing that is not there', (page) => {
    const dead = localLinks(page).filter(
      (target) => !existsSync(resolve(root, dirname(page), target.split('#')[0] as string)),
    )
    expect(dead).toEqual([])
  })

  it('the doctor guide explains every finding there is', () => {
    expect(findingCodes.size).toBeGreaterThan(30)
    const guide = readFileSync(join(root, 'docs/guides/read-a-doctor-report.md'), 'utf8')
    expect([...findingCodes].filter((code) => !guide.includes(`\`${code}\``))).toEqual([])
  })

  it('the page on performance says what was recorded', () => {
    const page = readFileSync(join(root, 'docs/performance.md'), 'utf8')
    expect(page).toBe(performancePage(page))
  })

  it('a table of figures is made of the newest run of a bench', () => {
    const results = mkdtempSync(join(tmpdir(), 'egpu-results-'))
    onTestFinished(() => rmSync(results, { recursive: true }))
    const missed = {
      figure: 'a | b',
      value: 151.889,
      unit: 'ms',
      against: 'bare: 134 ms',
      ratio: 2.1366,
      bar: '<= 150 ms',
    }
    const lines = ['built', JSON.stringify({ ...missed, pass: false }), '{"note":"2 cores"}']
    writeFileSync(join(results, 'product-2026-01-02.jsonl'), lines.join('\n'))
    writeFileSync(join(results, 'product-2026-01-01.jsonl'), '{"figure":"old","value":1,"unit":"s"}')
    const page = performancePage('# Performance\n\nBy hand.\n', results)
    expect(page).toMatch(/^# Performance\n\nBy hand\.\n/)
    expect(page).toContain('`pnpm bench product`, 2026-01-02; 2 cores.')
    expect(page).toContain('| a \\| b | 152 ms | bare: 134 ms | 2.14 x | <= 150 ms, **missed** |')
    expect(page).not.toContain('old')
    expect(performancePage(page, results)).toBe(page)
  })

  it('the page on platforms says what the drivers declare', async () => {
    expect(readFileSync(join(root, 'docs/platform-support.md'), 'utf8')).toBe(await platformSupport())
  })
})
