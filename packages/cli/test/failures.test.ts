import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { buildMachine, machineNamed } from '../../driver-linux/test/machines/index.ts'
import { runCli } from '../src/cli.ts'
import { pageFiles } from '../src/dashboard/page-files.ts'
import { didYouMean } from '../src/output/closest.ts'
import { failureText } from '../src/output/failure-text.ts'
import { withRuntimeDirectory } from '../src/probe/runtime-directory.ts'
import { recordingTerminal } from './recording-terminal.ts'

const folder = mkdtempSync(join(tmpdir(), 'egpu-failures-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function cli(...args: string[]): Promise<{ code: number; out: string; notes: string }> {
  const terminal = recordingTerminal()
  const code = await runCli(args, terminal)
  return { code, out: terminal.out.join('\n'), notes: terminal.notes.join('\n') }
}

describe('files that are not as they should be', () => {
  const store = join(folder, 'store')
  mkdirSync(join(store, 'workloads'), { recursive: true })
  const taken = join(folder, 'taken')
  writeFileSync(taken, 'x')
  const missing = join(folder, 'missing', 'file')

  it.each([
    ['list --from', ['list', '--from', missing], `there is no directory ${join(folder, 'missing')}`],
    ['tree --from', ['tree', '--from', missing], `there is no directory ${join(folder, 'missing')}`],
    ['doctor --from', ['doctor', '--from', folder], `${folder} is a directory`],
    ['list --sysfs-root on a file', ['list', '--sysfs-root', taken], `${taken}, or a part of it, is a file`],
    ['watch --sysfs-root', ['watch', '--sysfs-root', missing], `there is no directory ${join(folder, 'missing')}`],
    ['list --from', ['list', '--from', '/dev/zero'], '/dev/zero cannot be read: it is a device, no file'],
    [
      'dashboard --from',
      ['dashboard', '--port', '0', '--from', join(folder, 'no')],
      `there is no ${join(folder, 'no')};`,
    ],
    ['dump into no directory', ['dump', '-o', missing], `there is no directory ${join(folder, 'missing')}`],
    ['dump over a file', ['dump', '-o', taken], `${taken} is there already`],
    ['dump below a file', ['dump', '-o', join(taken, 'file')], 'is a file where a directory should be'],
    ['demo --png', ['demo', '--png', missing], 'there is no '],
    [
      'checkpoints import',
      ['checkpoints', 'import', store, missing],
      `there is no directory ${join(folder, 'missing')}`,
    ],
  ])('%s: a sentence, and exit code 1', async (_what, args, sentence) => {
    using machine = buildMachine(machineNamed('5'))
    const root = args[0] === 'dump' ? ['--sysfs-root', machine.sysfsRoot] : []
    const { code, out, notes } = await cli(...args, ...root)
    expect(code).toBe(1)
    expect(out).toBe('')
    expect(notes).toContain(sentence)
    expect(notes).not.toMatch(/ENOENT|EEXIST|EISDIR|ENOTDIR|\n\s+at /)
  })

  it('gives a program the code that the system gave', async () => {
    const { notes } = await cli('list', '--json', '--from', missing)
    expect(JSON.parse(notes)).toEqual({ error: { code: 'ENOENT', message: expect.stringContaining(folder) } })
  })

  it('keeps the words of a failure that it does not know', () => {
    expect(failureText(new Error('something else'))).toBe('something else')
    expect(failureText(Object.assign(new Error('odd'), { code: 'EODD', path: '/x' }))).toBe('odd')
    expect(failureText('thrown')).toBe('thrown')
  })
})

describe('ejecting from a recording', () => {
  it('says once why it was not done', async () => {
    using machine = buildMachine(machineNamed('1'))
    const { code, out, notes } = await cli('eject', '--yes', '--sysfs-root', machine.sysfsRoot)
    expect(code).toBe(1)
    expect(out).toBe('')
    const sentences = notes.split(/[:;\n]/).map((part) => part.trim())
    expect(new Set(sentences).size).toBe(sentences.length)
    expect(notes).toMatch(/was not ejected: .*record/)
  })
})

describe('names that nobody has', () => {
  it.each([
    ['lts', ['list', 'tree'], ' (did you mean list?)'],
    ['NVIDIA-2B85', ['amd-7550', 'nvidia-2b85-1'], ' (did you mean nvidia-2b85-1?)'],
    ['0000:05:00.1', ['0000:04:00.0'], ' (did you mean 0000:04:00.0?)'],
    ['something else', ['list', 'tree'], ''],
    ['', ['list'], ''],
    ['list', [], ''],
  ])('%j among %j', (typed, known, text) => {
    expect(didYouMean(typed, known)).toBe(text)
  })

  it('offers the id that was probably meant', async () => {
    using machine = buildMachine(machineNamed('1'))
    const { notes } = await cli('passthrough', 'plan', '0000:99:00.0', '--sysfs-root', machine.sysfsRoot)
    expect(notes).toMatch(/no GPU is called 0000:99:00\.0 \(did you mean 0000:[\da-f]{2}:00\.0\?\)/)
  })

  it.each([
    [['checkpoints', 'lst', '.'], 'Did you mean list?'],
    [['passthrough', 'blind'], 'Did you mean bind?'],
    [['list', '--form', 'x'], 'Did you mean --from?'],
    [['dashboard', '--simulate', '--from', 'x'], '--simulate'],
    [['list', '--from', 'x', '--sysfs-root', 'y'], '--sysfs-root'],
    [['dashboard', '--port', '99999'], 'a port is 0 to 65535'],
    [['list', 'everything'], 'too many arguments'],
  ])('%j is answered with %j and exit code 2', async (args, text) => {
    const { code, notes } = await cli(...args)
    expect(code).toBe(2)
    expect(notes).toContain(text)
  })
})

describe('the page of the dashboard', () => {
  it('says how to build it where it was not built', () => {
    expect(() => pageFiles(['/nowhere'])).toThrow(/not built.*npm run build/)
  })
})

describe('a runtime directory', () => {
  it.each([undefined, 'relative'])('is lent where the session has %j, and taken back', async (given) => {
    const before = process.env['XDG_RUNTIME_DIR']
    try {
      if (given === undefined) delete process.env['XDG_RUNTIME_DIR']
      else process.env['XDG_RUNTIME_DIR'] = given
      const lent = await withRuntimeDirectory(async () => process.env['XDG_RUNTIME_DIR'])
      expect(lent).toMatch(/^\/.*egpu-runtime-/)
      expect(process.env['XDG_RUNTIME_DIR']).toBe(given)
      process.env['XDG_RUNTIME_DIR'] = folder
      expect(await withRuntimeDirectory(async () => process.env['XDG_RUNTIME_DIR'])).toBe(folder)
    } finally {
      if (before === undefined) delete process.env['XDG_RUNTIME_DIR']
      else process.env['XDG_RUNTIME_DIR'] = before
    }
  })
})
