import { createColors } from 'picocolors'
import type { Terminal } from '../src/output/terminal.ts'

export interface RecordingTerminal extends Terminal {
  /** What a person reads as the result. */
  readonly out: string[]
  /** What goes to stderr. */
  readonly notes: string[]
}

/** A terminal without colours that keeps what was written. */
export function recordingTerminal(
  options: Partial<Pick<Terminal, 'columns' | 'hasTrueColor'>> = {},
): RecordingTerminal {
  const out: string[] = []
  const notes: string[] = []
  return {
    out,
    notes,
    print: (line = '') => void out.push(line),
    note: (line) => void notes.push(line),
    progress: () => {},
    columns: options.columns ?? 80,
    isInteractive: false,
    hasTrueColor: options.hasTrueColor ?? false,
    colors: createColors(false),
  }
}
