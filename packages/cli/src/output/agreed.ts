import type { Terminal } from './terminal.ts'

/** Whether a person who has just read the plan wants it done; says how to where nobody can be asked. */
export async function agreed(
  { confirm, print, colors }: Terminal,
  question: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (confirm !== undefined && (await confirm(question, signal))) return true
  print(colors.bold(confirm === undefined ? 'Nothing was changed. Do it with --yes.' : 'Nothing was changed.'))
  return false
}
