import type { PlanStep, SystemPlan } from '@egpu/core'
import type { Terminal } from './terminal.ts'
import { plain } from './text.ts'

/** A change to the system, as a person reads it before it is made. */
export function printPlan({ steps, holders, refusals, notes }: SystemPlan, { print, colors }: Terminal): void {
  for (const [index, step] of steps.entries()) {
    print(`  ${index + 1}. ${step.title}`)
    if (step.command !== undefined) print(colors.dim(`     ${step.command}`))
  }
  for (const { pid, name, user, holds } of holders)
    print(
      colors.yellow(
        `  held by ${plain(name ?? 'process')} (pid ${pid}${user === undefined ? '' : `, ${user}`}): ${plain(holds)}`,
      ),
    )
  for (const refusal of refusals) print(colors.red(`  not possible: ${plain(refusal)}`))
  for (const note of notes) print(`  note: ${plain(note)}`)
}

export function stepReport({ note }: Terminal): (step: PlanStep, status: string) => void {
  return (step, status) => {
    if (status !== 'started') note(`${status.padEnd(6)} ${step.title}`)
  }
}
