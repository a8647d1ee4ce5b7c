import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ioregSource } from '@egpu/driver-macos'
import { Command } from 'commander'
import { afterAll, describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { cases } from '../../driver-macos/test/cases.ts'
import { toPlist } from '../../driver-macos/test/registry-tree.ts'
import { runCli } from '../src/cli.ts'
import { registerDump } from '../src/commands/dump.ts'
import { recordingTerminal } from './recording-terminal.ts'

/** The only thing that differs: a recording has other ids. */
const uuid = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g

const folder = mkdtempSync(join(tmpdir(), 'egpu-dump-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function cli(...args: string[]): Promise<{ code: number; out: string; notes: string }> {
  const terminal = recordingTerminal()
  const code = await runCli(args, terminal)
  return { code, out: terminal.out.join('\n'), notes: terminal.notes.join('\n') }
}

describe('egpu dump', () => {
  it('writes what doctor and list read elsewhere with the same answer, and writes over nothing', async () => {
    using machine = buildMachine(machineNamed('5'))
    const file = join(folder, 'five.json')
    const root = ['--sysfs-root', machine.sysfsRoot]
    expect(await cli('dump', '--output', file, ...root)).toMatchObject({ code: 0, out: '' })
    const [there, here] = [await cli('doctor', '--from', file), await cli('doctor', ...root)]
    expect(there.out).not.toEqual(here.out)
    expect(there.out.replaceAll(uuid, '')).toEqual(here.out.replaceAll(uuid, ''))
    expect((await cli('list', '--from', file)).out).toContain('AORUS')
    expect((await cli('dump', '--output', file, ...root)).code).toBe(1)
  })

  it.each([
    ['cut short', '{"kind":"egpu-linux-recording","ver', /not whole.*egpu dump/],
    ['something else', '{"hello": 1}', /broken\.json.*no recording/],
    ['a text', 'Dear Sir or Madam,\n', /broken\.json.*no recording.*egpu dump.*ioreg -a/],
    ['XML of another kind', '<html></html>', /broken\.json.*<plist>/],
    ['of a later release', '{"kind":"egpu-linux-recording","version":9}', /version 9.*update/],
    ['empty', '', /no recording/],
    ['binary', '\u0000\u0001\u0002', /no recording/],
    ['a binary property list', 'bplist00\u0000', /plutil/],
  ])('is refused with a reason when it is %s', async (_what, text, reason) => {
    const file = join(folder, 'broken.json')
    writeFileSync(file, text)
    const { code, notes } = await cli('doctor', '--from', file)
    expect(code).toBe(1)
    expect(notes).toMatch(reason)
    expect(notes).toContain('[EGPU_MALFORMED_DATA]')
    expect(notes).not.toMatch(/\n\s+at /)
  })

  it('refuses a directory that holds no machine, and leaves no file behind', async () => {
    const file = join(folder, 'never.json')
    const { code, notes } = await cli('dump', '-o', file, '--sysfs-root', folder)
    expect(code).toBe(1)
    expect(notes).toMatch(/nothing to record.*bus\/pci\/devices/)
    expect(existsSync(file)).toBe(false)
  })
})

describe('egpu dump on a Mac', () => {
  const mac = cases.find(({ name }) => name.startsWith('M5 Max, Core X V2')) as (typeof cases)[number]

  /** `ioreg` and what it prints, in the place of the Mac's own. */
  function fakeIoreg(name: string, script: string): string {
    const path = join(folder, name)
    writeFileSync(path, `#!/bin/sh\n${script}\n`)
    chmodSync(path, 0o755)
    return path
  }

  async function dumpOn(ioreg: string, ...args: string[]): Promise<{ out: string; notes: string; error: unknown }> {
    const terminal = recordingTerminal()
    const program = new Command('egpu').exitOverride()
    registerDump(
      program,
      { terminal, signal: new AbortController().signal, exitWith: () => {} },
      { platform: 'darwin', macSources: async () => [ioregSource({ command: ioreg })] },
    )
    const error = await program.parseAsync(['dump', ...args], { from: 'user' }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    return { out: terminal.out.join('\n'), notes: terminal.notes.join('\n'), error }
  }

  it('writes what list reads elsewhere with the same answer, without the ids of its boxes', async () => {
    const raw = join(folder, 'raw.plist')
    writeFileSync(raw, toPlist(mac.tree()))
    const file = join(folder, 'mac.plist')
    const { out, error } = await dumpOn(fakeIoreg('ioreg', `exec cat ${raw}`), '-o', file)
    expect({ out, error }).toEqual({ out: '', error: undefined })
    const [there, here] = [await cli('list', '--from', raw), await cli('list', '--from', file)]
    expect(here.out).toContain('Core X V2')
    // The ids of devices are made from those of their boxes.
    const withoutIds = (text: string): string => text.replaceAll(/-[\da-f]{12}\b|0x[\da-f]{16}/g, '')
    expect(withoutIds(here.out)).toBe(withoutIds(there.out))
    const uids = (await cli('list', '--json', '--from', raw)).out.match(/0x[\da-f]{16}/g) ?? []
    expect(uids.length).toBeGreaterThan(0)
    for (const id of uids) expect(readFileSync(file, 'utf8')).not.toContain(`${BigInt.asIntN(64, BigInt(id))}`)
  })

  it.each([
    ['is not there', '/nowhere/ioreg', undefined],
    ['fails', 'failing', 'echo no registry >&2; exit 3'],
    ['prints something else', 'chatty', 'echo hello'],
  ])('says so when ioreg %s', async (_what, name, script) => {
    const { out, error } = await dumpOn(script === undefined ? name : fakeIoreg(name, script))
    expect(out).toBe('')
    expect(error).toMatchObject({ code: expect.stringMatching(/^EGPU_(NATIVE_UNAVAILABLE|MALFORMED_DATA)$/) })
  })
})
