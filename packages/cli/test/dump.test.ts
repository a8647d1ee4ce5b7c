import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { runCli } from '../src/cli.ts'
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
    ['something else', '{"hello": 1}', /no recording/],
    ['of a later release', '{"kind":"egpu-linux-recording","version":9}', /version 9.*update/],
    ['empty', '', /./],
    ['binary', '\u0000\u0001\u0002', /./],
  ])('is refused with a reason when it is %s', async (_what, text, reason) => {
    const file = join(folder, 'broken.json')
    writeFileSync(file, text)
    const { code, notes } = await cli('doctor', '--from', file)
    expect(code).toBe(1)
    expect(notes).toMatch(reason)
    expect(notes).not.toMatch(/\n\s+at /)
  })
})
