import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { machines } from '../machines/index.ts'

const here = import.meta.dirname
const text = readFileSync(join(here, '../../../../docs/findings-linux.md'), 'utf8')
const documented = new Set(
  text.split('\n').flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([a-z-]+)`/g)].map(([, code]) => code)),
)

/** Codes as the source spells them out; `security-<level>` is the one that is put together. */
function codesIn(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [...readFileSync(join(directory, name), 'utf8').matchAll(/\bcode: '([a-z-]+)'/g)])
    .map(([, code]) => code as string)
}

describe('docs/findings-linux.md', () => {
  it('has every code the source can report, and no other', () => {
    const codes = new Set(codesIn(join(here, '../../src')))
    for (const level of ['nopcie', 'dponly', 'usbonly']) codes.add(`security-${level}`)
    expect(documented).toEqual(codes)
  })

  it('has every code that a recorded machine is expected to report', () => {
    const expected = machines.flatMap(({ expected }) => expected.findings.map((finding) => finding.split(' ')[0]))
    expect(expected.filter((code) => !documented.has(code))).toEqual([])
  })
})
