import { createInterface } from 'node:readline/promises'
import { createColors } from 'picocolors'

/** Where a command writes, and how: a parameter, so that tests read what a person would see. */
export interface Terminal {
  /** One line of the result. */
  readonly print: (line?: string) => void
  /** One line about the work itself; never part of the result. */
  readonly note: (line: string) => void
  /** Replaces the progress line; nothing where there is no terminal. */
  readonly progress: (line: string) => void
  /** Asks a person; there only where somebody can answer. */
  readonly confirm?: ((question: string, signal: AbortSignal) => Promise<boolean>) | undefined
  readonly columns: number
  readonly isInteractive: boolean
  /** Whether 24-bit colours can be shown. */
  readonly hasTrueColor: boolean
  readonly colors: ReturnType<typeof createColors>
}

interface Streams {
  readonly stdin?: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: NodeJS.ProcessEnv
}

/**
 * The process's own terminal. No colours when NO_COLOR is set (https://no-color.org) or FORCE_COLOR is 0; else on a
 * terminal, or wherever FORCE_COLOR is set.
 */
export function processTerminal({ stdin, stdout, stderr, env }: Streams = process): Terminal {
  const isInteractive = stdout.isTTY
  const wantsColor = wantsColorIn(env, isInteractive)
  const columns = columnsIn(env) ?? (stdout.columns || 80)
  let progressShown = false
  const clearProgress = (): void => {
    if (progressShown) stderr.write('\r\u001B[2K')
    progressShown = false
  }
  return {
    print: (line = '') => {
      clearProgress()
      stdout.write(`${line}\n`)
    },
    note: (line) => {
      clearProgress()
      stderr.write(`${line}\n`)
    },
    progress: (line) => {
      if (!stderr.isTTY) return
      // What is longer than the real line would not be drawn over.
      stderr.write(`\r\u001B[2K${line.slice(0, Math.min(columns, stderr.columns || 80) - 1)}`)
      progressShown = true
    },
    confirm:
      stdin?.isTTY === true && stdout.isTTY
        ? (question, signal) => confirm(stdin, stdout, question, signal)
        : undefined,
    columns,
    isInteractive,
    hasTrueColor: wantsColor && (env['COLORTERM'] === 'truecolor' || env['COLORTERM'] === '24bit'),
    colors: createColors(wantsColor),
  }
}

function wantsColorIn(env: NodeJS.ProcessEnv, isInteractive: boolean): boolean {
  const force = env['FORCE_COLOR']
  if (env['NO_COLOR'] || force === '0' || force === 'false') return false
  return force === undefined ? isInteractive && env['TERM'] !== 'dumb' : true
}

/** The user's word on the width, which counts for a pipe and over the terminal's own (POSIX, environment variables). */
function columnsIn({ COLUMNS: given = '' }: NodeJS.ProcessEnv): number | undefined {
  return /^[1-9]\d{0,5}$/.test(given) ? Number(given) : undefined
}

/** Anything but a yes is a no, an aborted question too. */
async function confirm(
  input: NodeJS.ReadStream,
  output: NodeJS.WriteStream,
  question: string,
  signal: AbortSignal,
): Promise<boolean> {
  const asking = createInterface({ input, output })
  try {
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `, { signal })).trim())
  } finally {
    asking.close()
  }
}
