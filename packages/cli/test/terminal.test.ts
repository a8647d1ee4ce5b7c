import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { processTerminal } from '../src/output/terminal.ts'

interface Circumstances {
  readonly env?: NodeJS.ProcessEnv
  readonly columns?: number
  readonly isTTY?: boolean
}

function terminalWith({ env = {}, columns, isTTY = false }: Circumstances): {
  readonly terminal: ReturnType<typeof processTerminal>
  readonly err: PassThrough
} {
  const [out, err] = [new PassThrough(), new PassThrough()]
  for (const stream of [out, err]) Object.assign(stream, { isTTY, columns })
  const [stdout, stderr] = [out, err] as unknown as NodeJS.WriteStream[]
  return { terminal: processTerminal({ stdout: stdout!, stderr: stderr!, env }), err }
}

it.each([
  [{}, 80],
  [{ isTTY: true, columns: 132 }, 132],
  // As a pseudo terminal has it that nobody gave a size.
  [{ isTTY: true, columns: 0 }, 80],
  [{ env: { COLUMNS: '40' } }, 40],
  [{ env: { COLUMNS: '40' }, isTTY: true, columns: 132 }, 40],
  ...['', '0', '-3', 'wide', '1.5', '99999999999'].map((COLUMNS) => [{ env: { COLUMNS } }, 80] as const),
] as const)('with %j there are %d columns', (circumstances, columns) => {
  expect(terminalWith(circumstances).terminal.columns).toBe(columns)
})

it('keeps the progress line on the line that is really there, whatever COLUMNS says', () => {
  const { terminal, err } = terminalWith({ env: { COLUMNS: '500' }, isTTY: true, columns: 30 })
  terminal.progress('x'.repeat(100))
  expect(String(err.read()).match(/x/g)).toHaveLength(29)
})

it.each([
  [{ NO_COLOR: '1' }, false],
  [{ NO_COLOR: '1', FORCE_COLOR: '1' }, false],
  [{ NO_COLOR: '' }, true],
  [{ FORCE_COLOR: '0' }, false],
  [{ TERM: 'dumb' }, false],
  [{}, true],
])('on a terminal with %j colours: %s', (env, colored) => {
  const { colors } = terminalWith({ env, isTTY: true, columns: 80 }).terminal
  expect(colors.red('x') !== 'x').toBe(colored)
})
