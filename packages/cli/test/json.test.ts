import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { runCli } from '../src/cli.ts'
import { CommandErrorCode } from '../src/command-error.ts'
import { failureJson } from '../src/output/failure-text.ts'
import { recordingTerminal } from './recording-terminal.ts'

/** What a program ran prints is its own; a completion script is for a shell. */
const withoutJson = new Set(['completion', 'run'])

async function help(...path: readonly string[]): Promise<string> {
  const terminal = recordingTerminal({ columns: 200 })
  expect(await runCli([...path, '--help'], terminal)).toBe(0)
  return terminal.out.join('\n')
}

/** Every command that does something, as the help names them: those with commands of their own are walked down. */
async function commandsBelow(...path: readonly string[]): Promise<readonly string[][]> {
  const [, list = ''] = (await help(...path)).split('Commands:\n')
  const names = [...list.matchAll(/^ {2}([a-z]+)/gm)]
    .map(([, name]) => name as string)
    .filter((name) => name !== 'help')
  if (names.length === 0) return [[...path]]
  const below: string[][] = []
  for (const name of names) below.push(...(await commandsBelow(...path, name)))
  return below
}

const sources = fileURLToPath(new URL('../src', import.meta.url))
const sourceFiles = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))

describe('--json', () => {
  it('is taken by every command', async () => {
    const commands = (await commandsBelow()).filter(([name]) => !withoutJson.has(name as string))
    expect(commands.length).toBeGreaterThan(20)
    const refusing: string[] = []
    for (const path of commands) if (!/^ +--json /m.test(await help(...path))) refusing.push(path.join(' '))
    expect(refusing).toEqual([])
  })

  it.each([
    [['lst', '--json'], /unknown command 'lst'[\s\S]*Did you mean list/],
    [['list', '--json', '--form', 'x'], /unknown option '--form'/],
    [['list', '--json', 'everything'], /too many arguments/],
    [['dashboard', '--json', '--port', '99999'], /a port is 0 to 65535/],
    [['checkpoints', 'verify', '--json'], /missing required argument/],
    [['mesh', 'pair', '--json', '--fingerprint', 'short'], /64 hex digits/],
  ])('%j is refused as one object, with exit code 2', async (args, message) => {
    const terminal = recordingTerminal()
    expect(await runCli(args, terminal)).toBe(2)
    expect(terminal.out).toEqual([])
    const [line = ''] = terminal.notes
    expect(terminal.notes).toEqual([line])
    expect(JSON.parse(line)).toEqual({ error: { code: 'EGPU_USAGE', message: expect.stringMatching(message) } })
    expect(line).not.toMatch(/error: /)
  })

  it('of the program that egpu runs is none of ours', async () => {
    const terminal = recordingTerminal()
    expect(await runCli(['run', '--', '/nowhere/program', '--json'], terminal)).toBe(127)
    expect(terminal.notes.join('\n')).toMatch(/^egpu: /m)
  })

  it('has codes of its own that the page of errors explains', () => {
    const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')
    const headings = [...page.matchAll(/^### (\S+)$/gm)].map(([, code]) => code)
    expect(headings).toEqual(Object.values(CommandErrorCode))
  })

  it('gives every failure a code', async () => {
    for (const thrown of [new Error('odd'), 'text', new TypeError('wrong')])
      expect(JSON.parse(failureJson(thrown))).toMatchObject({ error: { code: 'EGPU_UNEXPECTED' } })
    // Ours have one from the start; the page has no exit code, and an interrupted command prints nothing.
    const plain = sourceFiles.filter((name) => {
      const text = readFileSync(join(sources, name), 'utf8').replace("new Error('interrupted')", '')
      return !name.startsWith(join('dashboard', 'page')) && /\bnew Error\(/.test(text)
    })
    expect(plain).toEqual([])
  })
})
