import type { PlanStep, SystemPlan } from '@egpu/core'
import type { Terminal } from './terminal.ts'
import { plain, wrap } from './text.ts'

/** A change to the system, as a person reads it before it is made. */
export function printPlan({ steps, holders, refusals, notes }: SystemPlan, terminal: Terminal): void {
  const { print, columns, colors } = terminal
  const item = (mark: string, text: string): string => {
    const indent = ' '.repeat(mark.length + 3)
    return `  ${mark} ${wrap(plain(text), columns - indent.length, indent)}`
  }
  for (const [index, step] of steps.entries()) {
    print(item(`${index + 1}.`, step.title))
    // In one piece, to be copied.
    if (step.command !== undefined) print(colors.dim(`     ${step.command}`))
  }
  for (const { pid, name, user, holds } of holders)
    print(
      colors.yellow(
        item('held by', `${name ?? 'process'} (pid ${pid}${user === undefined ? '' : `, ${user}`}): ${holds}`),
      ),
    )
  for (const refusal of refusals) print(colors.red(item('not possible:', refusal)))
  for (const note of notes) print(item('note:', note))
}

export function stepReport({ note }: Terminal): (step: PlanStep, status: string) => void {
  return (step, status) => {
    if (status !== 'started') note(`${status.padEnd(6)} ${step.title}`)
  }
}
