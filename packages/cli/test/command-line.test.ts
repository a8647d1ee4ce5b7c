import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { runCli } from '../src/cli.ts'
import { plain, wrap } from '../src/output/text.ts'
import { recordingTerminal } from './recording-terminal.ts'

describe('the command line', () => {
  it('answers a typing error with the command that was meant and exit code 2', async () => {
    const terminal = recordingTerminal()
    expect(await runCli(['lst'], terminal)).toBe(2)
    expect(terminal.notes.join('\n')).toContain('Did you mean list?')
  })

  it.each([
    ['--seed', '0'],
    ['--size', 'big'],
    ['--steps', '1.5'],
  ])('refuses demo %s %s', async (option, value) => {
    const terminal = recordingTerminal()
    expect(await runCli(['demo', option, value], terminal)).toBe(2)
    expect(terminal.notes.join('\n')).toContain(option)
  })

  it('prints its version and its help as results', async () => {
    const version = recordingTerminal()
    expect(await runCli(['--version'], version)).toBe(0)
    expect(version.out.join('')).toMatch(/^\d+\.\d+\.\d+$/)
    const help = recordingTerminal()
    expect(await runCli(['--help'], help)).toBe(0)
    expect(help.out.join('\n')).toMatch(/list[\s\S]*watch[\s\S]*demo/)
  })
})

describe('completion', () => {
  /** The completion library writes to the console itself. */
  async function completion(...args: string[]): Promise<string> {
    const lines: string[] = []
    const console = vi.spyOn(globalThis.console, 'log').mockImplementation((line: string) => void lines.push(line))
    try {
      expect(await runCli(args, recordingTerminal())).toBe(0)
    } finally {
      console.mockRestore()
    }
    return lines.join('\n')
  }

  it('works in a bash without anything else, and never runs what was typed', async () => {
    const terminal = recordingTerminal()
    expect(await runCli(['completion', 'bash'], terminal)).toBe(0)
    const complete = (...words: readonly string[]): string => {
      const script = `
        egpu() { printf '%s\n' "\${@:3}" >&2; printf 'plan\tshow it\nplay\t\nbind\tdo it\n:4\n'; }
        ${terminal.out.join('\n')}
        COMP_WORDS=("$@"); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
        _egpu egpu "\${COMP_WORDS[COMP_CWORD]}" "" 2>/dev/null; printf '%s\n' "\${COMPREPLY[@]}"`
      const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script, 'bash', ...words], { encoding: 'utf8' })
      expect(stderr).toBe('')
      return stdout.trim()
    }
    expect(complete('egpu', 'passthrough', 'pl')).toBe('plan\nplay')
    expect(complete('egpu', 'passthrough', '')).toBe('plan\nplay\nbind')
    const evil = join(mkdtempSync(join(tmpdir(), 'egpu-completion-')), 'evil')
    expect(complete('egpu', `$(touch ${evil})`, `; touch ${evil}`)).toBe('')
    expect(existsSync(evil)).toBe(false)
  })

  it.each(['zsh', 'fish', 'powershell'])('has a script for %s that asks egpu itself', async (shell) => {
    expect(await completion('completion', shell)).toMatch(/egpu[\s\S]* complete/)
  })

  it('offers commands, their parts and their options', async () => {
    expect(await completion('complete', '--', 'li')).toContain('list')
    expect(await completion('complete', '--', 'passthrough', '')).toMatch(/plan[\s\S]*bind[\s\S]*release/)
    expect(await completion('complete', '--', 'doctor', '--')).toContain('--json')
  })
})

describe('text from outside', () => {
  it.each([
    ['\u001B[31mred\u001B[0m', 'red'],
    ['\u001B]0;new title\u0007peer', 'peer'],
    ['two\nlines\r', 'twolines'],
    ['\u202Egnp.exe', 'gnp.exe'],
    ['Ünïcode 箱', 'Ünïcode 箱'],
  ])('%j is shown as %j', (hostile, shown) => {
    expect(plain(hostile)).toBe(shown)
  })

  it('is broken at spaces only', () => {
    expect(wrap('one two three', 7, '> ')).toBe('one two\n> three')
    expect(wrap('unbreakable', 4, '> ')).toBe('unbreakable')
  })
})
