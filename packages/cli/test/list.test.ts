import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { cases } from '../../driver-macos/test/cases.ts'
import { toPlist } from '../../driver-macos/test/registry-tree.ts'
import { runCli } from '../src/cli.ts'
import { recordingTerminal } from './recording-terminal.ts'

interface Listing {
  readonly machine: object
  readonly devices: readonly { readonly verdict: { readonly conclusion: string }; readonly enclosureName?: string }[]
  readonly enclosures: readonly { readonly name?: string }[]
  readonly findings: readonly { readonly code: string }[]
}

async function listJson(name: string): Promise<Listing> {
  using machine = buildMachine(machineNamed(name))
  const terminal = recordingTerminal()
  expect(await runCli(['list', '--json', '--sysfs-root', machine.sysfsRoot], terminal)).toBe(0)
  expect(terminal.out).toHaveLength(1)
  return JSON.parse(terminal.out[0] as string) as Listing
}

describe('egpu list', () => {
  it('prints every GPU of a recorded machine as JSON, external or not', async () => {
    const { machine, devices, enclosures, findings } = await listJson('1')
    expect(Object.keys(machine)).toEqual(['recordedAt'])
    expect(devices.map(({ verdict }) => verdict.conclusion).sort()).toEqual(['external', 'internal'])
    expect(devices.find(({ verdict }) => verdict.conclusion === 'external')?.enclosureName).toContain('AORUS')
    expect(enclosures).toHaveLength(1)
    expect(findings.map(({ code }) => code)).toContain('no-driver')
  })

  it('shows a connected enclosure that has no GPU, and what to do', async () => {
    using machine = buildMachine(machineNamed('5'))
    const terminal = recordingTerminal()
    expect(await runCli(['list', '--sysfs-root', machine.sysfsRoot], terminal)).toBe(0)
    const text = terminal.out.join('\n')
    expect(text).toContain('0 external')
    expect(text).toContain('not authorized')
    expect(text).toContain('enclosure-unauthorized')
  })

  it.each([40, 80, 200])('keeps the explanations within %i columns', async (columns) => {
    using machine = buildMachine(machineNamed('8'))
    const terminal = recordingTerminal({ columns })
    await runCli(['list', '--sysfs-root', machine.sysfsRoot], terminal)
    const rows = terminal.out.flatMap((row) => row.split('\n')).filter((row) => row.startsWith('  '))
    const breakable = rows.filter(
      (row) =>
        Math.max(
          ...row
            .trim()
            .split(/\s+/)
            .map(({ length }) => length),
        ) <
        columns - 11,
    )
    expect(breakable.length).toBeGreaterThan(10)
    expect(breakable.filter(({ length }) => length > columns)).toEqual([])
  })

  it("reads a Mac's dump on any system", async () => {
    const mac = cases.find(({ name }) => name.startsWith('M5 Max, Core X V2'))
    const directory = mkdtempSync(join(tmpdir(), 'egpu-dump-'))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    const file = join(directory, 'ioreg.plist')
    writeFileSync(file, toPlist((mac as (typeof cases)[number]).tree()))
    const terminal = recordingTerminal()
    expect(await runCli(['list', '--from', file], terminal)).toBe(0)
    expect(terminal.out.join('\n')).toMatch(/1 external[\s\S]*box +Core X V2/)
  })

  it.each(['{}', '<plist', ''])('says that %j is no dump', async (content) => {
    const directory = mkdtempSync(join(tmpdir(), 'egpu-dump-'))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    const file = join(directory, 'broken.plist')
    writeFileSync(file, content)
    const terminal = recordingTerminal()
    expect(await runCli(['doctor', '--from', file], terminal)).toBe(1)
    expect(terminal.notes.join('\n')).toMatch(/EGPU_/)
  })

  it('says which directory is no recorded machine', async () => {
    const terminal = recordingTerminal()
    expect(await runCli(['list', '--sysfs-root', '/nonexistent'], terminal)).toBe(1)
    expect(terminal.notes.join('\n')).toContain('there is no /nonexistent')
  })
})
